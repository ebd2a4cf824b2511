// The grammars of whole answers.
#include "grammar/answer_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/utf8.h"
#include "grammar/automaton.h"
#include "grammar/gbnf.h"
#include "grammar/json_rules.h"
#include "grammar/lark.h"
#include "grammar/pattern.h"
#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "grammar/text_automaton.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kThinkEnd = "</think>";
// Of the first walk through an answer, in the units of Automaton::cost.
constexpr size_t kWidthCheckCost = 100'000;
constexpr size_t kStateCost = 1'000;

using Form = Result<std::shared_ptr<const Grammar>>;

// Takes anything until the tag has appeared. A '<' begins the tag and stands nowhere else in it: a byte that
// breaks a beginning either begins anew or leads back to the start.
Place until_think_end(Grammar& g, Place next) {
  const Rule outside = g.new_rule();
  const Rule after_bracket = g.new_rule();
  const Place go_outside = g.call(outside, g.end());
  const Place begin_anew = g.text("<", g.call(after_bracket, g.end()));
  ByteSet others;
  others.set().reset('<');
  g.begin(outside, g.branch(g.take(others, go_outside), begin_anew));
  Place rest = g.end();
  for (size_t i = kThinkEnd.size(); i-- > 1;) {
    const auto wanted = static_cast<unsigned char>(kThinkEnd[i]);
    ByteSet breaking = others;
    breaking.reset(wanted);
    rest = g.branch({g.take_range(wanted, wanted, rest), g.take(breaking, go_outside), begin_anew});
  }
  g.begin(after_bracket, rest);
  return g.call(outside, next);
}

// Blanks that models are trained to write between the turn's head and its text.
Place after_blanks(Grammar& g, Place next) {
  const Place line = g.text("\n", next);
  return g.branch({next, g.text(" ", next), line, g.text("\n", line)});
}

bool apart_from_letters(Automaton& automaton, Automaton::State state, uint8_t blank) {
  automaton.step(state, blank);
  automaton.step(state, 'a');
  return automaton.first_alike(state, blank) != automaton.first_alike(state, 'a');
}

// Walks the first states of an answer, breadth first. Whoever asked finds out here, and not from an answer
// that lacks what has been left out, that a text has too many readings.
Status check_width(const std::shared_ptr<const Grammar>& grammar) {
  Automaton automaton(grammar);
  size_t cost = 0;
  for (Automaton::State state = 0; static_cast<size_t>(state) < automaton.states(); ++state) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      // Gaps change nothing of the width: those are left aside unless they are part of free text.
      const bool blank = byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
      if (blank && apart_from_letters(automaton, state, static_cast<uint8_t>(byte))) continue;
      automaton.step(state, static_cast<uint8_t>(byte));
      if (automaton.first_alike(state, static_cast<uint8_t>(byte)) != byte) continue;
      cost += automaton.cost(state, static_cast<uint8_t>(byte));
      if (automaton.narrowed()) {
        return Error{
            ErrorKind::unsupported,
            fmt::format("the schema is too large to compile: one text can be read in more than {} ways at "
                        "once, which is the limit; use fewer alternatives that begin alike",
                        Automaton::kMaxFrames)};
      }
    }
    cost += kStateCost;
    if (cost > kWidthCheckCost) break;
  }
  return {};
}

enum class Beginning : uint8_t { at_once, after_blanks };

Form finished(const std::shared_ptr<Grammar>& grammar, AnswerStart start, Place body,
              Beginning beginning = Beginning::after_blanks) {
  Grammar& g = *grammar;
  const bool at_once = beginning == Beginning::at_once && start == AnswerStart::plain;
  Place place = at_once ? body : after_blanks(g, body);
  if (start == AnswerStart::open_tag) place = g.text(">", place);
  if (start == AnswerStart::open_think) place = until_think_end(g, place);
  FULMAR_TRY(g.finish(g.rule(place)));
  FULMAR_TRY(check_width(grammar));
  return std::shared_ptr<const Grammar>(grammar);
}

bool takes_any_object(const CallableTool& tool) {
  return !tool.parameters.is_object() || tool.parameters.as_object().members().empty();
}

// What the parts of one answer share while they are compiled.
struct Workshop {
  Workshop(const FormOptions& given, Budget& to_pay)
      : options(given),
        budget(to_pay),
        grammar(std::make_shared<Grammar>(budget)),
        rules(*grammar, given.whitespace) {}

  Status take_bytes(const JsonValue& schema) {
    return budget.take(Budget::Item::bytes, json_text(schema).size());
  }
  // `loosened` gets what cannot be kept; null: it is refused.
  Result<Rule> schema(const JsonValue& schema, Loosened* loosened = nullptr) {
    FULMAR_TRY(take_bytes(schema));
    const SchemaOptions asked{.loosened = loosened, .unlisted = options.unlisted, .order = options.order};
    return SchemaCompiler(schema, *grammar, rules, budget, asked).compile();
  }
  Place once(Rule rule) { return grammar->call(rule, grammar->end()); }

  const FormOptions& options;
  Budget& budget;
  std::shared_ptr<Grammar> grammar;
  JsonRules rules;
};

// Calls `make` with a workshop under the options' budget, or under a fresh one.
template <class Make>
Form in_workshop(const FormOptions& options, const Make& make) {
  Budget fresh;
  Workshop shop(options, options.budget ? *options.budget : fresh);
  return make(shop);
}

// How calls are written. `loosely`: functions that are not strict take any object.
struct CallForm {
  const std::vector<CallableTool>& tools;
  bool several;
  const CallMarks& marks;
  bool loosely = false;
};

Result<Place> calls_of(Workshop& shop, const CallForm& form) {
  const auto& [tools, several, marks, loosely] = form;
  Grammar& g = *shop.grammar;
  const Place close = g.text(fmt::format("}}{}", marks.close), g.end());
  std::vector<Place> calls;
  for (const CallableTool& tool : tools) {
    Rule arguments = shop.rules.any_object(kFreeDepth);
    if (!takes_any_object(tool) && (tool.strict || !loosely)) {
      Loosened loosened;
      auto compiled = shop.schema(tool.parameters, tool.strict ? nullptr : &loosened);
      if (!compiled) {
        const Error& error = compiled.error();
        return Error{error.kind, fmt::format("parameters of function '{}': {}", tool.name, error.text)};
      }
      arguments = *compiled;
    }
    const std::string head = fmt::format("{{\"name\":{},\"arguments\":", json_quoted(tool.name));
    calls.push_back(g.text(head, g.call(arguments, close)));
  }
  if (calls.empty()) return Error{ErrorKind::invalid, "there is no function to call; wanted at least one"};
  const Rule call = g.rule(g.text(std::string(marks.open), g.branch(calls)));
  const Rule further = g.rule(g.branch(g.text("\n", g.call(call, g.end())), g.call(call, g.end())));
  return g.call(call, g.repeat(further, 0, several ? kMaxCalls - 1 : 0, g.end()));
}

// `make` compiles an answer with calls; functions that are not strict lose their schemas where those cannot
// be kept.
template <class Make>
Form with_calls(CallForm form, const FormOptions& options, const Make& make) {
  Budget first = options.budget ? *options.budget : Budget();
  Budget second = first;
  const auto made_with = [&](Budget& budget) {
    Workshop shop(options, budget);
    auto made = make(shop, form);
    if (options.budget) *options.budget = budget;
    return made;
  };
  auto made = made_with(first);
  const bool all_strict =
      std::all_of(form.tools.begin(), form.tools.end(), [](const CallableTool& tool) { return tool.strict; });
  if (made || all_strict || made.error().kind != ErrorKind::unsupported) return made;
  form.loosely = true;
  return made_with(second);
}

template <class Parse>
Form syntax_form(AnswerStart start, std::string_view text, const FormOptions& options, const Parse& parse) {
  return in_workshop(options, [&](Workshop& shop) -> Form {
    FULMAR_TRY(shop.budget.take(Budget::Item::bytes, text.size()));
    FULMAR_ASSIGN(Syntax syntax, parse(text));
    FULMAR_ASSIGN(const Place body, syntax_place(std::move(syntax), *shop.grammar, shop.budget));
    return finished(shop.grammar, start, body, Beginning::at_once);
  });
}

}  // namespace

Form json_object_form(AnswerStart start, const FormOptions& options) {
  return in_workshop(options, [&](Workshop& shop) {
    return finished(shop.grammar, start, shop.once(shop.rules.any_object(kFreeDepth)));
  });
}

Form json_schema_form(AnswerStart start, const JsonValue& schema, const FormOptions& options) {
  return in_workshop(options, [&](Workshop& shop) -> Form {
    FULMAR_ASSIGN(const Rule value, shop.schema(schema));
    return finished(shop.grammar, start, shop.once(value));
  });
}

Form tool_call_form(AnswerStart start, const std::vector<CallableTool>& tools, bool several,
                    const CallMarks& marks, const FormOptions& options) {
  return with_calls({tools, several, marks}, options, [&](Workshop& shop, const CallForm& form) -> Form {
    FULMAR_ASSIGN(const Place calls, calls_of(shop, form));
    return finished(shop.grammar, start, calls);
  });
}

Form schema_or_calls_form(AnswerStart start, const JsonValue* schema, const std::vector<CallableTool>& tools,
                          bool several, const CallMarks& marks, const FormOptions& options) {
  return with_calls({tools, several, marks}, options, [&](Workshop& shop, const CallForm& form) -> Form {
    Rule value = shop.rules.any_object(kFreeDepth);
    if (schema) {
      FULMAR_ASSIGN(value, shop.schema(*schema));
    }
    FULMAR_ASSIGN(const Place calls, calls_of(shop, form));
    return finished(shop.grammar, start, shop.grammar->branch(shop.once(value), calls));
  });
}

Form choice_form(AnswerStart start, const std::vector<std::string>& texts, const FormOptions& options) {
  return in_workshop(options, [&](Workshop& shop) -> Form {
    if (texts.empty()) return Error{ErrorKind::invalid, "the choice holds no text; wanted at least one"};
    for (size_t i = 0; i < texts.size(); ++i) {
      FULMAR_TRY(shop.budget.take(Budget::Item::bytes, texts[i].size() + 1));
      if (!texts[i].empty() && is_utf8(texts[i])) continue;
      return Error{ErrorKind::invalid,
                   fmt::format("text {} of the choice is {}", i, texts[i].empty() ? "empty" : "no UTF-8")};
    }
    return finished(shop.grammar, start, shop.grammar->one_of(texts, shop.grammar->end()),
                    Beginning::at_once);
  });
}

Form regex_form(AnswerStart start, std::string_view pattern, const FormOptions& options) {
  return in_workshop(options, [&](Workshop& shop) -> Form {
    FULMAR_TRY(shop.budget.take(Budget::Item::bytes, pattern.size()));
    FULMAR_ASSIGN(const Pattern tree, parse_pattern(pattern));
    FULMAR_ASSIGN(const TextAutomaton texts, TextAutomaton::of_whole_pattern(tree, shop.budget));
    if (texts.empty()) return Error{ErrorKind::invalid, "the regular expression matches no text"};
    return finished(shop.grammar, start, texts.plain(*shop.grammar, shop.grammar->end()), Beginning::at_once);
  });
}

Form gbnf_form(AnswerStart start, std::string_view text, const FormOptions& options) {
  return syntax_form(start, text, options, parse_gbnf);
}

Form lark_form(AnswerStart start, std::string_view text, const FormOptions& options) {
  return syntax_form(start, text, options, parse_lark);
}

}  // namespace fulmar
