// The steps between a family's parser and the engine: finds the model and the session that a request names,
// and submits its rows. Knows no family's shapes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unix_time.h"
#include "engine/ask.h"
#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/generate/adapter_fields.h"
#include "server/generate/answer_rules.h"
#include "server/generate/generation.h"
#include "server/generate/reply.h"
#include "server/generate/session_ids.h"
#include "server/generate/writer.h"
#include "server/models/served_model.h"
#include "text/think_mode.h"

namespace fulmar {

// What pick_model reads beside kAdapterFields, and what OpenAI's routes do of whose a request is.
inline constexpr FieldTable kModelFields{
    "model",
    {{"model", Takes::text(),
      "a loaded model or an adapter of one; unknown names mean the default model unless --strict-model"},
     {"state_id", Takes::text(), "tuned state that the answer starts from"},
     {"mrss_gatingweight", Takes::numbers(), "weights of the states that a mixture is made of"}}};
inline constexpr FieldTable kAccountFields{
    "account",
    {{"metadata", Takes::object("any"), "at most 16 texts"},
     {"service_tier", Takes::word("auto default flex scale priority"), "all are served alike"}}};

// Finds the model that the request names, with its tuned state or mixture of states and its adapter, from the
// fields `model`, `state_id` (or its header), `mrss_gatingweight` and kAdapterFields. Null, with the fault in
// `fields`, when there is none.
ServedModelPtr pick_model(const Call& call, Fields& fields);
// What is said of the model elsewhere than in the body.
struct ModelHints {
  std::string_view state;                // the header X-RWKV-State-Id; empty: none
  const AdapterWish* adapter = nullptr;  // in place of kAdapterFields; null: read those
};
ServedModelPtr pick_model(const Service& service, const Owner& owner, Fields& fields,
                          const ModelHints& hints);
// Makes the answer to requests that need a model while none is loaded.
ApiError no_model_loaded();
// Reads the field `model`, of at most 256 bytes; `otherwise` when absent or empty.
std::string model_name(Fields& fields, std::string_view otherwise);

// The session that a request continues (docs/http.md, "Sessions").
struct SessionUse {
  std::string id;
  std::string write_to;             // session that gets the new state; empty: the same
  bool must_exist = false;          // a missing session is an error
  bool raw_append = false;          // no blank line between the turns
  bool keep_on_disconnect = false;  // after a disconnect the turn is stored as far as it went
};

// Tells whether clients may send it as the id of a session (session_ids.h).
bool is_session_id(std::string_view id);
// Reads a field that holds a session's id; empty when absent or at fault.
std::string session_id_field(Fields& fields, TypedField<Takes::Type::text> field);

// Reads the field `metadata` of the OpenAI routes: at most 16 strings, names of at most 64 bytes and values
// of at most 512. Null when absent or at fault.
const JsonObject* read_metadata(Fields& fields);

// Reads which session the request uses; nothing when neither body nor headers name one.
std::optional<SessionUse> read_session(const Call& call, Fields& fields);
// Reads and writes the session; `prompt` is only the new turn.
StateLink link_session(const SessionUse& session, const std::string& prompt, const ServedModel& model);

// Everything that a family's parser has read from a request.
struct Submission {
  ServedModelPtr model;
  std::string model_name;  // for status pages
  std::string endpoint;    // likewise: "chat.completions", ...
  std::string request_id;
  Generation generation;
  ThinkMode think = ThinkMode::none;  // suffix of the prompts, which decides how an answer begins
  bool reads_tools = false;           // else functions in the body are refused
  std::vector<std::vector<int32_t>> prompts;
  int32_t rows_per_prompt = 1;
  StateLink state;    // only with a single row
  std::string owner;  // for responses in the background; otherwise the call's owner
  bool score_prompt = false;
  bool refuse_if_never_run = false;
  std::optional<ReasoningMode> split;
  std::shared_ptr<const void> held;  // kept until the request has ended and cannot be resumed any more
};

// Returns how the answer's reasoning is split off. Text that is constrained to a form other than JSON is kept
// byte for byte.
std::optional<ReasoningMode> split_of(const Submission& submission);

// Makes the rows of a background submission, which no call waits for, owned by submission.owner and still
// without a listener. Adds to `warnings` what has no effect. Returns the fault if there is one. Blocks as
// lease_adapter() does.
std::optional<ApiError> make_request(Service& service, Submission submission, Request& request,
                                     std::vector<std::string>& warnings);
// Submits them to the engine; returns the fault if it refuses them.
std::optional<ApiError> submit_request(const Service& service, Engine& engine, Request request);

// Refuses what is too large, else submits the rows to the engine and answers the call, now or later.
void submit(std::shared_ptr<Call> call, Submission submission, std::unique_ptr<Writer> writer);

// Makes a unique id of a request that cannot be guessed: "<prefix><24 hex digits>".
std::string new_request_id(std::string_view prefix);

}  // namespace fulmar
