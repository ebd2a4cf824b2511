// The grammars of whole answers.
#include "grammar/answer_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "grammar/automaton.h"
#include "grammar/json_rules.h"
#include "grammar/schema.h"
#include "grammar/schema_values.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kThinkEnd = "</think>";
// Of the first walk through an answer, in the units of Automaton::cost.
constexpr size_t kWidthCheckCost = 1'000'000;

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

// Walks the first states of an answer, breadth first. Whoever asked finds out here, and not from an answer
// that lacks what has been left out, that a text has too many readings.
Status check_width(const std::shared_ptr<const Grammar>& grammar) {
  Automaton automaton(grammar);
  size_t cost = 0;
  for (Automaton::State state = 0; static_cast<size_t>(state) < automaton.states(); ++state) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      automaton.step(state, static_cast<uint8_t>(byte));
      cost += automaton.cost(state, static_cast<uint8_t>(byte));
      if (automaton.narrowed()) {
        return Error{
            ErrorKind::unsupported,
            fmt::format("the schema is too large to compile: one text can be read in more than {} ways at "
                        "once, which is the limit; use fewer alternatives that begin alike",
                        Automaton::kMaxFrames)};
      }
    }
    if (cost > kWidthCheckCost) break;
  }
  return {};
}

Result<std::shared_ptr<const Grammar>> finished(const std::shared_ptr<Grammar>& grammar, AnswerStart start,
                                                Place body) {
  Grammar& g = *grammar;
  Place place = after_blanks(g, body);
  if (start == AnswerStart::open_tag) place = g.text(">", place);
  if (start == AnswerStart::open_think) place = until_think_end(g, place);
  FULMAR_TRY(g.finish(g.rule(place)));
  FULMAR_TRY(check_width(grammar));
  return std::shared_ptr<const Grammar>(grammar);
}

Status take_bytes(Budget& budget, const JsonValue& schema) {
  return budget.take(Budget::Item::bytes, json_text(schema).size());
}

bool takes_any_object(const CallableTool& tool) {
  return !tool.parameters.is_object() || tool.parameters.as_object().members().empty();
}

// What the parts of one answer share while they are compiled.
struct Workshop {
  std::shared_ptr<Grammar> grammar = std::make_shared<Grammar>();
  JsonRules rules{*grammar};
  Budget budget;
};

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
  JsonRules& rules = shop.rules;
  Budget& budget = shop.budget;
  const Place close = g.text(fmt::format("}}{}", marks.close), g.end());
  std::vector<Place> calls;
  for (const CallableTool& tool : tools) {
    Rule arguments = rules.any_object(kFreeDepth);
    if (!takes_any_object(tool) && (tool.strict || !loosely)) {
      const auto refuse = [&](const Error& error) {
        return Error{error.kind, fmt::format("parameters of function '{}': {}", tool.name, error.text)};
      };
      if (const Status within = take_bytes(budget, tool.parameters); !within) return refuse(within.error());
      const auto strictness = tool.strict ? Strictness::strict : Strictness::lenient;
      auto compiled = SchemaCompiler(tool.parameters, g, rules, budget, strictness).compile();
      if (!compiled) return refuse(compiled.error());
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
Result<std::shared_ptr<const Grammar>> with_calls(CallForm form, const Make& make) {
  auto made = make(form);
  const bool all_strict =
      std::all_of(form.tools.begin(), form.tools.end(), [](const CallableTool& tool) { return tool.strict; });
  if (made || all_strict || made.error().kind != ErrorKind::unsupported) return made;
  form.loosely = true;
  return make(form);
}

}  // namespace

Result<std::shared_ptr<const Grammar>> json_object_form(AnswerStart start) {
  const auto grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  return finished(grammar, start, grammar->call(rules.any_object(kFreeDepth), grammar->end()));
}

Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema) {
  Budget budget;
  return json_schema_form(start, schema, budget);
}

Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema,
                                                        Budget& budget) {
  FULMAR_TRY(take_bytes(budget, schema));
  const auto grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  FULMAR_ASSIGN(const Rule value, SchemaCompiler(schema, *grammar, rules, budget).compile());
  return finished(grammar, start, grammar->call(value, grammar->end()));
}

Result<std::shared_ptr<const Grammar>> tool_call_form(AnswerStart start,
                                                      const std::vector<CallableTool>& tools, bool several,
                                                      const CallMarks& marks) {
  return with_calls({tools, several, marks},
                    [&](const CallForm& form) -> Result<std::shared_ptr<const Grammar>> {
                      Workshop shop;
                      FULMAR_ASSIGN(const Place calls, calls_of(shop, form));
                      return finished(shop.grammar, start, calls);
                    });
}

Result<std::shared_ptr<const Grammar>> schema_or_calls_form(AnswerStart start, const JsonValue* schema,
                                                            const std::vector<CallableTool>& tools,
                                                            bool several, const CallMarks& marks) {
  return with_calls({tools, several, marks},
                    [&](const CallForm& form) -> Result<std::shared_ptr<const Grammar>> {
                      Workshop shop;
                      Grammar& g = *shop.grammar;
                      Rule value = shop.rules.any_object(kFreeDepth);
                      if (schema) {
                        FULMAR_TRY(take_bytes(shop.budget, *schema));
                        FULMAR_ASSIGN(value, SchemaCompiler(*schema, g, shop.rules, shop.budget).compile());
                      }
                      FULMAR_ASSIGN(const Place calls, calls_of(shop, form));
                      return finished(shop.grammar, start, g.branch(g.call(value, g.end()), calls));
                    });
}

}  // namespace fulmar
