// Generation parameters of every route (http-api.md 3): defaults as data, fields to plain structs, and the
// hand-over of rows to the engine. Knows no family's shapes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unix_time.h"
#include "engine/ask.h"
#include "server/answer_rules.h"
#include "server/call.h"
#include "server/fields.h"
#include "server/reply.h"
#include "server/served_model.h"
#include "server/writer.h"
#include "text/think_mode.h"

namespace fulmar {

// Which stops hold when a request names none. The end token holds besides, always.
enum class DefaultStops : uint8_t {
  end_only,
  turn,       // blank line, or the model begins to speak for the user
  user_text,  // the texts "\n\nUser:" and "\nUser:"
  infill,     // the marker of the fill-in-the-middle template
};

// One column of http-api.md 3.2.
struct GenerationDefaults {
  int64_t max_tokens;
  double temperature;
  int64_t top_k;
  double top_p;
  double presence;
  double frequency;
  double decay;
  DefaultStops stops;
  int64_t chunk_size;
  bool stream = false;
  bool pad_zero = false;
};

inline constexpr GenerationDefaults kNativeDefaults{.max_tokens = 8192,
                                                    .temperature = 1.0,
                                                    .top_k = 50,
                                                    .top_p = 0.6,
                                                    .presence = 2.0,
                                                    .frequency = 0.2,
                                                    .decay = 0.996,
                                                    .stops = DefaultStops::turn,
                                                    .chunk_size = 4};
inline constexpr GenerationDefaults kChatDefaults{.max_tokens = 4096,
                                                  .temperature = 1.0,
                                                  .top_k = 20,
                                                  .top_p = 0.6,
                                                  .presence = 1.0,
                                                  .frequency = 0.1,
                                                  .decay = 0.996,
                                                  .stops = DefaultStops::user_text,
                                                  .chunk_size = 1};
inline constexpr GenerationDefaults kCompletionDefaults{.max_tokens = 1024,
                                                        .temperature = 1.0,
                                                        .top_k = 0,
                                                        .top_p = 1.0,
                                                        .presence = 0.0,
                                                        .frequency = 0.0,
                                                        .decay = 0.996,
                                                        .stops = DefaultStops::end_only,
                                                        .chunk_size = 1};

struct Generation {
  SamplingParams sampling;  // seed: of row 0; row i draws with seed + i
  int64_t max_tokens = 0;
  StopRules stop;
  std::vector<BannedAt> banned_at;
  int64_t chunk_size = 1;
  bool stream = false;
  bool include_usage = false;
  bool pad_zero = false;
  bool use_prefix_cache = true;
  std::shared_ptr<Constraint> constraint;  // null: any text
};

// Reads all fields of http-api.md 3.1. Faults stay in `fields`; the result is meaningful without one only.
Generation read_generation(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                           const ServerLimits& limits);

// The model that the field `model` names. Null, with the fault in `fields`, when there is none.
ServedModelPtr pick_model(const Call& call, Fields& fields);
// The field `model` as sent, or `otherwise`.
std::string model_name(Fields& fields, std::string_view otherwise);

// Keeps the model from closing its think block at once (http-api.md 4.2); without effect on vocabularies in
// which the ids concerned have another text.
void force_reasoning(Generation& generation, const Tokenizer& tokenizer);

// Makes every row keep to the rules. Faults stay in `fields`, under `param`.
void constrain(Fields& fields, Service& service, const ServedModelPtr& model, ThinkMode think,
               const AnswerRules& rules, std::string_view param, Generation& generation);

// The session that a request continues (http-api.md 7.2).
struct SessionUse {
  std::string id;
  bool raw_append = false;          // no blank line between the turns
  bool keep_on_disconnect = false;  // a broken turn is kept as far as it went
};

// Nothing when the body names no session.
std::optional<SessionUse> read_session(Fields& fields);
// Reads and writes the session; `prompt` is only the new turn.
StateLink link_session(const SessionUse& session, const std::string& prompt, const Tokenizer& tokenizer);

// Everything that a family's parser hands over.
struct Submission {
  ServedModelPtr model;
  std::string model_name;  // for status pages
  std::string endpoint;    // likewise: "chat.completions", ...
  std::string request_id;
  Generation generation;
  std::vector<std::vector<int32_t>> prompts;
  int32_t rows_per_prompt = 1;
  StateLink state;  // only with a single row
  bool score_prompt = false;
  bool refuse_if_never_run = false;
  std::optional<ReasoningMode> split;
};

// Refuses what is too large, hands the rows to the engine and answers the call, now or later.
void submit(std::shared_ptr<Call> call, Submission submission, std::unique_ptr<Writer> writer);

// Ids for requests, unique and not guessable: "<prefix><24 hex digits>".
std::string new_request_id(std::string_view prefix);

}  // namespace fulmar
