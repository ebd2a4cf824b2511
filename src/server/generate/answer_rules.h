// Structured output (constrained answers): reads what a request says about functions and the form of its
// answer (docs/structured-output.md, docs/http.md "Tool calls") and builds the grammar from it.
// constraint_fields.h lists the members that say so.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ask.h"
#include "grammar/answer_form.h"
#include "grammar/constraint.h"
#include "server/core/fields.h"
#include "server/generate/constraint_cache.h"
#include "server/generate/tool_calls.h"
#include "server/models/served_model.h"
#include "text/think_mode.h"

namespace fulmar {

// What a request says of functions.
struct ToolUse {
  enum class Choice : uint8_t { none, may, must };
  Choice choice = Choice::none;
  bool several = true;                    // parallel_tool_calls
  std::vector<CallableTool> tools;        // those that may be called
  std::vector<std::string> descriptions;  // of all, for the prompt: one line of JSON each
};

// Where the name of a function stands: in a member "function" of the tool, or beside its type as on
// /v1/responses.
enum class ToolForm : uint8_t { nested, flat };

// Reads the tools. Faults stay in `fields`. With tool_choice "none" no tool is shown to the model; with
// "allowed_tools" only those are. Tools of types that only other servers run ("web_search", ...) are left
// out, unless one of them must be called.
ToolUse read_tools(Fields& fields, ToolForm form);

// Returns the calls to look for in the answer. `marks`: those of the model's template.
ExpectedCalls expected_calls(const ToolUse& tools, const CallMarks& marks);

// How JSON is written where a request does not say.
struct WrittenJson {
  Whitespace whitespace = Whitespace::normal;
  MemberOrder order = MemberOrder::schema;
};

// What the answer must be; nothing of it set: any text.
struct AnswerRules {
  std::string param;  // the member of the request that says so
  bool json_object = false;
  std::optional<JsonValue> schema;
  bool strict = true;  // what cannot be kept of the schema is refused, else it is loosened
  // Texts that are no JSON; at most one of them, and none of the above beside it.
  std::optional<std::string> regex, grammar;
  std::vector<std::string> choice;
  // How JSON is written; nothing: as the server does by default.
  std::optional<Whitespace> whitespace;
  std::optional<MemberOrder> order;
  // Functions that may be called. The answer must be one of these calls; or, with an object or a schema, that
  // or a call; or, with `or_text`, any text that may be followed by calls.
  std::vector<CallableTool> calls;
  bool or_text = false;
  bool several_calls = true;

  bool is_json() const { return json_object || schema; }
  bool is_plain() const { return regex || grammar || !choice.empty(); }
  bool any_text() const { return !is_json() && !is_plain() && calls.empty(); }
};

// Of tools in either form; those of other types are left out of the request.
inline constexpr std::string_view kNestedToolMembers =
    R"([{"?":{"function":{"":"type","function":{"":"name description parameters strict"}}}}])";
inline constexpr std::string_view kFlatToolMembers =
    R"([{"?":{"function":{"":"type name description parameters strict"}}}])";
inline constexpr std::string_view kToolChoiceMembers =
    R"({"":"type name mode","function":{"":"name"},"tools":[{"":"type name","function":{"":"name"}}],)"
    R"("allowed_tools":{"":"mode","tools":[{"":"type name","function":{"":"name"}}]}})";

// What read_tools reads.
inline constexpr FieldTable kToolFields{
    "tools",
    {{"tools", Takes::list(kNestedToolMembers), "functions that may be called"},
     {"tool_choice", Takes::any(kToolChoiceMembers), "\"auto\", \"none\", \"required\" or a function"},
     {"parallel_tool_calls", Takes::boolean(), "several calls in one answer", "true"}}};
// What it reads where functions lie flat.
inline constexpr FieldTable kFlatToolFields{
    "flat_tools",
    {{"tools", Takes::list(kFlatToolMembers), "functions that may be called"},
     kToolFields.list[1],
     kToolFields.list[2]}};

// Reads the object `response_format`, or text.format of /v1/responses, where the schema lies beside the type.
// A schema without "strict": true may be loosened where it cannot be enforced.
AnswerRules read_format(Fields& fields, const JsonObject* format, std::string_view name);
// Adds calls to `rules`: as the only answer when one is required, else as an alternative. Tools together with
// a form that is not JSON (regex, grammar, choice) are a fault, recorded in `fields`.
void add_calls(Fields& fields, AnswerRules& rules, const ToolUse& tools);

// Returns how an answer begins after the template's suffix of this mode.
AnswerStart answer_start(ThinkMode think, const PromptTemplate& chosen);

// Thread-safe. Remembers the latest constraints of each owner, so that its requests of one form share their
// masks. Whatever takes time happens outside of the lock.
class AnswerConstraints {
 public:
  // Returns the compiled constraint from the owner's cache, or compiles it. Errors come from the compilation
  // and from TokenTree.
  Result<CompiledRules> find(const std::string& owner, const ServedModelPtr& named, AnswerStart start,
                             const AnswerRules& rules, const WrittenJson& defaults = {});

 private:
  struct Tree {
    std::weak_ptr<const ServedModel> model;
    std::shared_ptr<const TokenTree> tree;
  };

  Result<std::shared_ptr<const TokenTree>> tree_of(const ServedModelPtr& model);

  ConstraintCache compiled_;
  std::mutex mutex_;
  std::list<Tree> trees_;  // of vocabularies, shared by all owners
};

// Makes a row's token mask. `stop`: the id that may end the row when the text is complete.
std::shared_ptr<TokenMask> make_mask(std::shared_ptr<Constraint> constraint, const Tokenizer& tokenizer,
                                     std::optional<int32_t> stop);

}  // namespace fulmar
