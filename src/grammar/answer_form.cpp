// The grammars of whole answers.
#include "grammar/answer_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
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
// The cost of the first walk through an answer, in the units of Automaton::cost.
constexpr size_t kWidthCheckCost = 100'000;
constexpr size_t kStateCost = 1'000;

using Form = Result<std::shared_ptr<const Grammar>>;

// Returns how much of `mark` the text ends with after `byte`, if it ended with its first `begun` bytes
// before.
size_t begun_after(std::string_view mark, size_t begun, char byte) {
  if (mark.find(byte) == std::string_view::npos) return 0;
  const std::string text = std::string(mark.substr(0, begun)) + byte;
  size_t length = text.size();
  while (!text.ends_with(mark.substr(0, length))) --length;
  return length;
}

enum class MayEnd : uint8_t { no, yes };

// Takes any bytes until `mark` has appeared, then `next`; with MayEnd::yes the whole text may also end before
// that. Only what follows `next` may follow this place.
Place until(Grammar& g, std::string_view mark, MayEnd may_end, Place next) {
  std::vector<Rule> begun(mark.size());  // by how much of the mark has come
  for (Rule& rule : begun) rule = g.new_rule();
  for (size_t i = 0; i < mark.size(); ++i) {
    std::map<size_t, ByteSet> leading;  // by what they lead to
    for (unsigned byte = 0; byte < 256; ++byte) {
      leading[begun_after(mark, i, static_cast<char>(byte))].set(byte);
    }
    std::vector<Place> choices;
    for (const auto& [to, bytes] : leading) {
      choices.push_back(g.take(bytes, to == mark.size() ? next : g.call(begun[to], g.end())));
    }
    if (may_end == MayEnd::yes) choices.push_back(g.end());
    g.begin(begun[i], g.branch(choices));
  }
  return g.call(begun[0], g.end());
}

// Takes the white space that models are trained to write between a turn's head and its text, then `next`.
Place after_blanks(Grammar& g, Place next) {
  const Place line = g.text("\n", next);
  return g.branch({next, g.text(" ", next), line, g.text("\n", line)});
}

bool apart_from_letters(Automaton& automaton, Automaton::State state, uint8_t blank) {
  automaton.step(state, blank);
  automaton.step(state, 'a');
  return automaton.first_alike(state, blank) != automaton.first_alike(state, 'a');
}

// Walks the first states of an answer, breadth first, so that a text with too many readings is refused here
// and not found later, in an answer for which readings were left out.
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

Form checked(const std::shared_ptr<Grammar>& grammar, Place whole) {
  FULMAR_TRY(grammar->finish(grammar->rule(whole)));
  FULMAR_TRY(check_width(grammar));
  return std::shared_ptr<const Grammar>(grammar);
}

enum class Beginning : uint8_t { at_once, after_blanks };

Form finished(const std::shared_ptr<Grammar>& grammar, AnswerStart start, Place body,
              Beginning beginning = Beginning::after_blanks) {
  Grammar& g = *grammar;
  Place place = beginning == Beginning::at_once ? body : after_blanks(g, body);
  if (start == AnswerStart::open_tag) place = g.text(">", place);
  if (start == AnswerStart::open_think) place = until(g, kThinkEnd, MayEnd::no, place);
  return checked(grammar, place);
}

bool takes_any_object(const CallableTool& tool) {
  return !tool.parameters.is_object() || tool.parameters.as_object().members().empty();
}

// The state shared by the parts of one answer while they are compiled.
struct Workshop {
  Workshop(const FormOptions& given, Budget& to_pay)
      : options(given),
        budget(to_pay),
        grammar(std::make_shared<Grammar>(budget)),
        rules(*grammar, given.whitespace) {}

  Status take_bytes(const JsonValue& schema) {
    return budget.take(Budget::Item::bytes, json_text(schema).size());
  }
  // Returns the rule of a schema's values. A schema that is not strict is loosened where it cannot be kept,
  // and wholly if `loosely` is set. `owner` begins the texts about it.
  Result<Rule> schema(const JsonValue& schema, bool strict, const std::string& owner = {}) {
    if (!strict && loosely) return rules.any_object(kFreeDepth);
    Loosened given_up;
    const auto compiled = [&]() -> Result<Rule> {
      FULMAR_TRY(take_bytes(schema));
      const SchemaOptions asked{
          .loosened = strict ? nullptr : &given_up, .unlisted = options.unlisted, .order = options.order};
      SchemaCompiler compiler(schema, *grammar, rules, budget, asked);
      auto rule = compiler.compile();
      if (rule && emptied.empty() && !compiler.emptied().empty()) emptied = owner + compiler.emptied();
      return rule;
    }();
    for (const std::string& text : given_up.texts()) loosened.add(owner + text);
    if (compiled) return compiled;
    const Error& error = compiled.error();
    if (strict || error.kind == ErrorKind::unavailable) return Error{error.kind, owner + error.text};
    loosened.add(fmt::format("{}{}; any object is taken", owner, error.text));
    return rules.any_object(kFreeDepth);
  }
  Place once(Rule rule) { return grammar->call(rule, grammar->end()); }

  const FormOptions& options;
  Budget& budget;
  std::shared_ptr<Grammar> grammar;
  JsonRules rules;
  Loosened loosened;
  std::string emptied;   // see SchemaCompiler
  bool loosely = false;  // schemas that are not strict give way to any object
};

// Calls `make` with a workshop under the options' budget, or under a fresh one. If the schemas together are
// too large, those that are not strict are replaced by any object.
template <class Make>
Form in_workshop(const FormOptions& options, bool all_strict, const Make& make) {
  const Budget before = options.budget ? *options.budget : Budget();
  Budget budget = before;
  Workshop shop(options, budget);
  Form made = make(shop);
  if (!made && made.error().kind == ErrorKind::invalid && !shop.emptied.empty()) {
    made = Error{ErrorKind::invalid, fmt::format("{} ({})", made.error().text, shop.emptied)};
  }
  const bool again = !made && !all_strict && made.error().kind != ErrorKind::unavailable;
  if (again) {
    budget = before;
    Workshop fewer(options, budget);
    fewer.loosely = true;
    Form looser = make(fewer);
    if (looser) {
      shop.loosened = {};
      shop.loosened.add(
          fmt::format("{}; any object is taken where a schema is not strict", made.error().text));
      made = std::move(looser);
    }
  }
  if (options.budget) *options.budget = budget;
  if (made && options.loosened) *options.loosened = std::move(shop.loosened);
  return made;
}

bool all_strict(const std::vector<CallableTool>& tools) {
  return std::all_of(tools.begin(), tools.end(), [](const CallableTool& tool) { return tool.strict; });
}

// How calls are written.
struct CallForm {
  const std::vector<CallableTool>& tools;
  bool several;
  const CallMarks& marks;
};

bool names_object(const JsonValue* type) {
  const auto is_object = [](const JsonValue& one) { return one.is_string() && one.as_string() == "object"; };
  if (type && type->is_array()) {
    return std::any_of(type->as_array().begin(), type->as_array().end(), is_object);
  }
  return type && is_object(*type);
}

// Makes a schema of arguments one of objects, which arguments always are. Nothing: it is one already.
std::optional<JsonValue> made_object(const CallableTool& tool, Loosened& loosened, const std::string& owner) {
  const JsonValue* type = tool.parameters.find("type");
  if (names_object(type) || (type && tool.strict)) return std::nullopt;
  if (type) {
    loosened.add(fmt::format("{}schema keyword 'type' at '#' is {}; it is taken as \"object\"", owner,
                             describe(*type)));
  }
  std::vector<JsonObject::Member> members{{"type", JsonValue(std::string("object"))}};
  for (const auto& member : tool.parameters.as_object().members()) {
    if (member.first != "type") members.push_back(member);
  }
  return JsonValue(JsonObject(std::move(members)));
}

// Returns the place after the opening mark of the first call.
Result<Place> calls_of(Workshop& shop, const CallForm& form) {
  const auto& [tools, several, marks] = form;
  Grammar& g = *shop.grammar;
  JsonRules& json = shop.rules;
  const Place close = json.close("}", json.gap(g.text(marks.close, g.end())));
  std::vector<Place> calls;  // from the name on
  for (const CallableTool& tool : tools) {
    Rule arguments = shop.rules.any_object(kFreeDepth);
    if (!takes_any_object(tool)) {
      const std::string owner = fmt::format("parameters of function '{}': ", tool.name);
      const auto object = made_object(tool, shop.loosened, owner);
      FULMAR_ASSIGN(arguments, shop.schema(object ? *object : tool.parameters, tool.strict, owner));
    }
    const Place value = g.text("\"arguments\"", json.colon(g.call(arguments, close)));
    calls.push_back(g.text(json_quoted(tool.name), json.comma(value)));
  }
  if (calls.empty()) return Error{ErrorKind::invalid, "there is no function to call; wanted at least one"};
  const Place head = json.open("{", g.text("\"name\"", json.colon(g.branch(calls))));
  const Rule call = g.rule(json.gap(head));
  const Place marked = g.text(marks.open, g.call(call, g.end()));
  const Rule further = g.rule(g.branch(g.text("\n", marked), marked));
  return g.call(call, g.repeat(further, 0, several ? kMaxCalls - 1 : 0, g.end()));
}

template <class Parse>
Form syntax_form(AnswerStart start, std::string_view text, const FormOptions& options, const Parse& parse) {
  return in_workshop(options, true, [&](Workshop& shop) -> Form {
    FULMAR_TRY(shop.budget.take(Budget::Item::bytes, text.size()));
    FULMAR_ASSIGN(Syntax syntax, parse(text));
    FULMAR_ASSIGN(const Place body, syntax_place(std::move(syntax), *shop.grammar, shop.budget));
    return finished(shop.grammar, start, body, Beginning::at_once);
  });
}

}  // namespace

Form json_object_form(AnswerStart start, const FormOptions& options) {
  return in_workshop(options, true, [&](Workshop& shop) {
    return finished(shop.grammar, start, shop.once(shop.rules.any_object(kFreeDepth)));
  });
}

Form json_schema_form(AnswerStart start, const JsonValue& schema, const FormOptions& options) {
  return in_workshop(options, options.strict, [&](Workshop& shop) -> Form {
    FULMAR_ASSIGN(const Rule value, shop.schema(schema, options.strict));
    return finished(shop.grammar, start, shop.once(value));
  });
}

Form tool_call_form(AnswerStart start, const std::vector<CallableTool>& tools, bool several,
                    const CallMarks& marks, const FormOptions& options) {
  return in_workshop(options, all_strict(tools), [&](Workshop& shop) -> Form {
    FULMAR_ASSIGN(const Place calls, calls_of(shop, {tools, several, marks}));
    return finished(shop.grammar, start, shop.grammar->text(marks.open, calls));
  });
}

Form text_or_calls_form(AnswerStart start, const std::vector<CallableTool>& tools, bool several,
                        const CallMarks& marks, const FormOptions& options) {
  return in_workshop(options, all_strict(tools), [&](Workshop& shop) -> Form {
    FULMAR_ASSIGN(const Place calls, calls_of(shop, {tools, several, marks}));
    Place whole = until(*shop.grammar, marks.open, MayEnd::yes, calls);
    if (start == AnswerStart::open_think) whole = until(*shop.grammar, kThinkEnd, MayEnd::yes, whole);
    return checked(shop.grammar, whole);
  });
}

std::vector<std::string> before_calls(AnswerStart start, const CallMarks& marks) {
  if (start != AnswerStart::open_think) return {std::string(marks.open)};
  return {std::string(kThinkEnd), std::string(marks.open)};
}

Form schema_or_calls_form(AnswerStart start, const JsonValue* schema, const std::vector<CallableTool>& tools,
                          bool several, const CallMarks& marks, const FormOptions& options) {
  const bool strict = (!schema || options.strict) && all_strict(tools);
  return in_workshop(options, strict, [&](Workshop& shop) -> Form {
    Rule value = shop.rules.any_object(kFreeDepth);
    if (schema) {
      FULMAR_ASSIGN(value, shop.schema(*schema, options.strict));
    }
    FULMAR_ASSIGN(const Place calls, calls_of(shop, {tools, several, marks}));
    const Place marked = shop.grammar->text(marks.open, calls);
    return finished(shop.grammar, start, shop.grammar->branch(shop.once(value), marked));
  });
}

Form choice_form(AnswerStart start, const std::vector<std::string>& texts, const FormOptions& options) {
  return in_workshop(options, true, [&](Workshop& shop) -> Form {
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
  return in_workshop(options, true, [&](Workshop& shop) -> Form {
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
