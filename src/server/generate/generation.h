// Generation parameters of every route (docs/http.md, "Generation parameters"): defaults as data, fields to a
// plain struct. Knows no route and no engine.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/ask.h"
#include "server/core/fields.h"
#include "server/core/options.h"
#include "server/generate/answer_rules.h"
#include "server/models/served_model.h"
#include "text/tokenizer.h"

namespace fulmar {

// The text for requests that name one.
inline constexpr const char* kNoAdapters =
    "Adapters are not supported: this server runs a model's weights as they are; merge an adapter into the "
    "weights, "
    "or use a tuned state (POST /v1/state/upload)";

// Which stops hold when a request names none. The end token holds besides, always.
enum class DefaultStops : uint8_t {
  end_only,
  turn,       // blank line, or the model begins to speak for the user
  user_text,  // those of the model's chat template
  infill,     // the marker of the fill-in-the-middle template
};

// One column of docs/http.md, "Generation parameters".
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
  StopRules asked_stop;  // of these, those that the request names
  std::vector<BannedAt> banned_at;
  int64_t chunk_size = 1;
  bool stream = false;
  bool include_usage = false;
  bool pad_zero = false;
  bool use_prefix_cache = true;
  bool speculate = true;
  std::vector<int32_t> prediction;  // ids that the answer may begin with; empty: not known
  AnswerRules answer;
};

// Reads all fields of docs/http.md, "Generation parameters", and what constrains the answer. Faults stay in
// `fields`; the result is meaningful without one only.
Generation read_generation(Fields& fields, const GenerationDefaults& defaults, const ServedModel& model,
                           const ServerLimits& limits);

// The stops of the model's chat template besides those that a request names, for APIs whose clients know
// nothing of turns.
void add_chat_stops(const ServedModel& model, StopRules& stop);

// kChatDefaults; where the server is told so, with what the model's authors advise or else what OpenAI's API
// takes in place of the sampling parameters.
GenerationDefaults chat_defaults(const ServedModel& model, ThinkMode think, const ServerOptions& options);
// kCompletionDefaults; with the length of OpenAI's API where the server is told so.
GenerationDefaults completion_defaults(const ServerOptions& options);

// Keeps the model from closing its think block at once (docs/http.md, "Prompts"); without effect on
// vocabularies in which the ids concerned have another text.
void force_reasoning(Generation& generation, const Tokenizer& tokenizer);

}  // namespace fulmar
