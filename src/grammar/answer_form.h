// The forms of a constrained chat answer from its first byte to its last: the rest of a think block, then
// JSON, tool calls or another text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/grammar.h"
#include "grammar/json_rules.h"
#include "grammar/schema_options.h"
#include "net/json_value.h"
#include "text/prompt_template.h"

namespace fulmar {

// How the answer begins, which depends on the end of the prompt.
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

// Options of every form.
struct FormOptions {
  Whitespace whitespace = Whitespace::none;  // between the tokens of JSON
  MemberOrder order = MemberOrder::schema;   // of the members of objects
  bool unlisted = false;                     // members that a schema lets be without listing them
  bool strict = true;                        // of a format's schema; a function has its own
  Loosened* loosened = nullptr;              // gets what was loosened; may be null
  // Pays for the making, and may stop it; null: a budget of its own, Budget::kDefault.
  Budget* budget = nullptr;
};

// Every form bounds what it costs to make (Budget) and to walk (Automaton). Error unsupported: the cost is
// beyond the bound, or one text would have more readings at once than an automaton holds. Error unavailable:
// the budget's stop flag was raised. A schema that is not strict is never refused for its content: what
// cannot be enforced is loosened, the whole schema if need be.

// Makes the form of any complete JSON object.
Result<std::shared_ptr<const Grammar>> json_object_form(AnswerStart start, const FormOptions& options = {});
// Makes the form of the values of a schema.
Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema,
                                                        const FormOptions& options = {});
// Makes the form of calls, {"name":...,"arguments":{...}} between marks: one, or up to kMaxCalls of them.
Result<std::shared_ptr<const Grammar>> tool_call_form(AnswerStart start,
                                                      const std::vector<CallableTool>& tools, bool several,
                                                      const CallMarks& marks = kTaggedCall,
                                                      const FormOptions& options = {});
inline constexpr int64_t kMaxCalls = 16;
// Makes the form of a text without calls, or of a text that ends in calls. Where the answer begins in a think
// block, no call begins before the block's end.
Result<std::shared_ptr<const Grammar>> text_or_calls_form(AnswerStart start,
                                                          const std::vector<CallableTool>& tools,
                                                          bool several, const CallMarks& marks = kTaggedCall,
                                                          const FormOptions& options = {});
// Returns the texts that precede the first call in such an answer, one after the other.
std::vector<std::string> before_calls(AnswerStart start, const CallMarks& marks);
// Makes the form of either a value of the schema (null: any object) or calls.
Result<std::shared_ptr<const Grammar>> schema_or_calls_form(AnswerStart start, const JsonValue* schema,
                                                            const std::vector<CallableTool>& tools,
                                                            bool several,
                                                            const CallMarks& marks = kTaggedCall,
                                                            const FormOptions& options = {});

// Texts that are not JSON begin exactly at the start of the answer, or after its think block, without extra
// white space.

// Makes the form of one of the texts. Errors (invalid): no texts; one that is empty or not UTF-8.
Result<std::shared_ptr<const Grammar>> choice_form(AnswerStart start, const std::vector<std::string>& texts,
                                                   const FormOptions& options = {});
// Makes the form of a text that the regular expression (see parse_pattern) matches as a whole.
Result<std::shared_ptr<const Grammar>> regex_form(AnswerStart start, std::string_view pattern,
                                                  const FormOptions& options = {});
// Makes the form of a text of the grammar: GBNF as in llama.cpp, or Lark. Errors: invalid, with the line.
Result<std::shared_ptr<const Grammar>> gbnf_form(AnswerStart start, std::string_view text,
                                                 const FormOptions& options = {});
Result<std::shared_ptr<const Grammar>> lark_form(AnswerStart start, std::string_view text,
                                                 const FormOptions& options = {});

}  // namespace fulmar
