// Generation parameters of every route (docs/http.md, "Generation parameters"): the defaults as data, and the
// reader of the fields. Knows no route and no engine.
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

inline constexpr double kMaxPenalty = 1e6;
// What read_generation reads.
inline constexpr FieldTable kRowFields{
    "rows",
    {{"max_tokens", Takes::integer(0), "most tokens of an answer"},
     {"max_completion_tokens", Takes::integer(0), "goes before max_tokens"},
     {"temperature", Takes::number(0, 1000), "0 takes the likeliest token"},
     {"include_stop_str_in_output", Takes::boolean(), "keeps the text that ended the answer", "false"},
     {"ignore_eos", Takes::boolean(), "goes on to max_tokens whatever comes", "false"},
     {"seed", Takes::seed(), "equal seeds draw equally; absent: another one each time"},
     {"stream", Takes::boolean(), "answers in events"},
     {"chunk_size", Takes::integer(), "tokens of one event; below 1 means 1"},
     {"pad_zero", Takes::boolean(), "begins prompts with token 0"},
     {"use_prefix_cache", Takes::boolean(), "takes what an earlier prompt left", "true"},
     {"speculate", Takes::boolean(), "false: no tokens of this answer are drafted", "true"}}};
// What wants_usage reads, on routes whose streams have no figures unless a client asks for them.
inline constexpr FieldTable kUsageFields{"usage",
                                         {{"stream_options", Takes::object(R"({"":"include_usage"})"),
                                           "include_usage: figures in the last event"}}};
inline constexpr FieldTable kStopFields{"stops",
                                        {{"stop", Takes::texts(), "text or texts that end an answer"},
                                         {"stop_tokens", Takes::any(), "ids or texts that end an answer"}}};
inline constexpr FieldTable kSamplingFields{
    "sampling",
    {{"top_p", Takes::number(), "share of probability that tokens are drawn from; below 0 or above 1: all"},
     {"top_k", Takes::integer(), "how many tokens are drawn from; below 1: all"},
     {"min_p", Takes::number(0, 1), "least probability, as a share of the likeliest token's", "0"},
     {"presence_penalty", Takes::number(-kMaxPenalty, kMaxPenalty), "subtracted from tokens that have come"},
     {"frequency_penalty", Takes::number(-kMaxPenalty, kMaxPenalty),
      "subtracted for each time that a token has come"},
     {"penalty_decay", Takes::number(0, 1), "what penalties are multiplied with after each token"},
     {"alpha_presence", Takes::number(-kMaxPenalty, kMaxPenalty), "as presence_penalty"},
     {"alpha_frequency", Takes::number(-kMaxPenalty, kMaxPenalty), "as frequency_penalty"},
     {"alpha_decay", Takes::number(0, 1), "as penalty_decay"},
     {"temperature_last", Takes::boolean(), "temperature after top_k and top_p", "false"},
     {"logit_bias", Takes::object("any"), "token id to a number from -100 to 100"}}};

// Stops that apply when a request names none. The end token applies always.
enum class DefaultStops : uint8_t {
  end_only,
  turn,       // blank line, or the model begins to speak for the user
  user_text,  // those of the model's chat template
  infill,     // the marker of the fill-in-the-middle template
};

// Defaults of a route: one column of docs/http.md, "Generation parameters".
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

// Tells whether a client asks for figures in a stream's last event.
bool wants_usage(Fields& fields);

// Adds the stops of the model's chat template to those of the request, for APIs whose clients do not know
// where a turn ends.
void add_chat_stops(const ServedModel& model, StopRules& stop);

// Returns kChatDefaults. With ServerOptions::recommended_sampling the sampling parameters are those that the
// model's authors advise, else with openai_defaults those of OpenAI's API.
GenerationDefaults chat_defaults(const ServedModel& model, ThinkMode think, const ServerOptions& options);
// Returns kCompletionDefaults, with the length of OpenAI's API when ServerOptions::openai_defaults is set.
GenerationDefaults completion_defaults(const ServerOptions& options);

// Keeps the model from closing its think block at once (docs/http.md, "Prompts"); without effect on
// vocabularies in which the ids concerned have another text.
void force_reasoning(Generation& generation, const Tokenizer& tokenizer);

}  // namespace fulmar
