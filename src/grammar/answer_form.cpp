// The grammars of whole answers.
#include "grammar/answer_form.h"

#include <fmt/format.h>

#include <string_view>

#include "grammar/json_rules.h"
#include "grammar/schema.h"
#include "net/json_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kThinkEnd = "</think>";

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

Result<std::shared_ptr<const Grammar>> finished(const std::shared_ptr<Grammar>& grammar, AnswerStart start,
                                                Place body) {
  Grammar& g = *grammar;
  Place place = after_blanks(g, body);
  if (start == AnswerStart::open_tag) place = g.text(">", place);
  if (start == AnswerStart::open_think) place = until_think_end(g, place);
  FULMAR_TRY(g.finish(g.rule(place)));
  return std::shared_ptr<const Grammar>(grammar);
}

}  // namespace

Result<std::shared_ptr<const Grammar>> json_object_form(AnswerStart start) {
  const auto grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  return finished(grammar, start, grammar->call(rules.any_object(kFreeDepth), grammar->end()));
}

Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema) {
  const auto grammar = std::make_shared<Grammar>();
  JsonRules rules(*grammar);
  FULMAR_ASSIGN(const Rule value, SchemaCompiler(schema, *grammar, rules).compile());
  return finished(grammar, start, grammar->call(value, grammar->end()));
}

Result<std::shared_ptr<const Grammar>> tool_call_form(AnswerStart start,
                                                      const std::vector<CallableTool>& tools, bool several,
                                                      const CallMarks& marks) {
  const auto grammar = std::make_shared<Grammar>();
  Grammar& g = *grammar;
  JsonRules rules(g);
  const Place close = g.text(fmt::format("}}{}", marks.close), g.end());
  std::vector<Place> calls;
  for (const CallableTool& tool : tools) {
    Rule arguments = rules.any_object(kFreeDepth);
    if (tool.parameters.is_object() && !tool.parameters.as_object().members().empty()) {
      auto compiled = SchemaCompiler(tool.parameters, g, rules).compile();
      if (!compiled) {
        return Error{compiled.error().kind,
                     fmt::format("parameters of function '{}': {}", tool.name, compiled.error().text)};
      }
      arguments = *compiled;
    }
    const std::string head = fmt::format("{{\"name\":{},\"arguments\":", json_quoted(tool.name));
    calls.push_back(g.text(head, g.call(arguments, close)));
  }
  if (calls.empty()) return Error{ErrorKind::invalid, "there is no function to call; wanted at least one"};
  const Rule call = g.rule(g.text(std::string(marks.open), g.branch(calls)));
  const Rule further = g.rule(g.branch(g.text("\n", g.call(call, g.end())), g.call(call, g.end())));
  return finished(grammar, start, g.call(call, g.repeat(further, 0, several ? kMaxCalls - 1 : 0, g.end())));
}

}  // namespace fulmar
