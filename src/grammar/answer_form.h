// What a constrained answer of a chat looks like from its first byte to its last: the rest of a think block,
// then JSON or tool calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/grammar.h"
#include "net/json_value.h"
#include "text/prompt_template.h"

namespace fulmar {

// How the answer begins, by where the prompt ends.
enum class AnswerStart : uint8_t {
  plain,       // perhaps a space or newlines
  open_tag,    // a '>' is missing, then as plain
  open_think,  // anything up to "</think>", then as plain
};

// A function that must be called, with the schema of its arguments.
struct CallableTool {
  std::string name;
  JsonValue parameters;  // a schema; null or {}: any object
  bool strict = true;    // else the schema is kept as far as it can be
};

// All forms have a bound on what they cost to make (Budget) and to walk (Automaton). Beyond it, and where one
// text would have to be read in more ways at once than an automaton holds, the error is of kind unsupported.

// Any complete JSON object.
Result<std::shared_ptr<const Grammar>> json_object_form(AnswerStart start);
// A value of the schema.
Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema);
Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema,
                                                        Budget& budget);
// {"name":...,"arguments":{...}} between marks, once, or up to kMaxCalls times.
Result<std::shared_ptr<const Grammar>> tool_call_form(AnswerStart start,
                                                      const std::vector<CallableTool>& tools, bool several,
                                                      const CallMarks& marks = kTaggedCall);
inline constexpr int64_t kMaxCalls = 16;
// Either of both: a value of the schema (null: any object), or calls.
Result<std::shared_ptr<const Grammar>> schema_or_calls_form(AnswerStart start, const JsonValue* schema,
                                                            const std::vector<CallableTool>& tools,
                                                            bool several,
                                                            const CallMarks& marks = kTaggedCall);

}  // namespace fulmar
