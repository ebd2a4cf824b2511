// What a constrained answer of a chat looks like from its first byte to its last: the rest of a think block,
// then JSON or tool calls.
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

// What holds for any form.
struct FormOptions {
  Whitespace whitespace = Whitespace::none;  // between the tokens of JSON
  MemberOrder order = MemberOrder::schema;   // of the members of objects
  bool unlisted = false;                     // members that a schema lets be without listing them
  bool strict = true;                        // of a format's schema; a function has its own
  Loosened* loosened = nullptr;              // gets what was loosened; null: nobody asks
  // Pays for the making, and may stop it; null: a budget of its own, as Budget::kDefault.
  Budget* budget = nullptr;
};

// All forms have a bound on what they cost to make (Budget) and to walk (Automaton). Beyond it, and where one
// text would have to be read in more ways at once than an automaton holds, the error is of kind unsupported;
// where the budget's stop flag was raised, unavailable. A schema that is not strict is not refused for what
// it says: what cannot be kept of it is loosened, all of it if need be.

// Any complete JSON object.
Result<std::shared_ptr<const Grammar>> json_object_form(AnswerStart start, const FormOptions& options = {});
// A value of the schema.
Result<std::shared_ptr<const Grammar>> json_schema_form(AnswerStart start, const JsonValue& schema,
                                                        const FormOptions& options = {});
// {"name":...,"arguments":{...}} between marks, once, or up to kMaxCalls times.
Result<std::shared_ptr<const Grammar>> tool_call_form(AnswerStart start,
                                                      const std::vector<CallableTool>& tools, bool several,
                                                      const CallMarks& marks = kTaggedCall,
                                                      const FormOptions& options = {});
inline constexpr int64_t kMaxCalls = 16;
// Any text in which no call begins; or that, and then calls with which it ends. Where the answer begins in a
// think block, none begins before the block's end.
Result<std::shared_ptr<const Grammar>> text_or_calls_form(AnswerStart start,
                                                          const std::vector<CallableTool>& tools,
                                                          bool several, const CallMarks& marks = kTaggedCall,
                                                          const FormOptions& options = {});
// The texts that have stood in such an answer, one after the other, when its first call begins.
std::vector<std::string> before_calls(AnswerStart start, const CallMarks& marks);
// Either of both: a value of the schema (null: any object), or calls.
Result<std::shared_ptr<const Grammar>> schema_or_calls_form(AnswerStart start, const JsonValue* schema,
                                                            const std::vector<CallableTool>& tools,
                                                            bool several,
                                                            const CallMarks& marks = kTaggedCall,
                                                            const FormOptions& options = {});

// Texts that are no JSON stand at the very beginning of an answer, or behind its think block, without a blank
// that is not theirs.

// One of the texts. Errors (invalid): none; one that is empty or no UTF-8.
Result<std::shared_ptr<const Grammar>> choice_form(AnswerStart start, const std::vector<std::string>& texts,
                                                   const FormOptions& options = {});
// A text that the regular expression (see parse_pattern) matches as a whole.
Result<std::shared_ptr<const Grammar>> regex_form(AnswerStart start, std::string_view pattern,
                                                  const FormOptions& options = {});
// A text of the grammar: GBNF as llama.cpp takes it, or Lark. Errors: invalid, naming the line.
Result<std::shared_ptr<const Grammar>> gbnf_form(AnswerStart start, std::string_view text,
                                                 const FormOptions& options = {});
Result<std::shared_ptr<const Grammar>> lark_form(AnswerStart start, std::string_view text,
                                                 const FormOptions& options = {});

}  // namespace fulmar
