// What the engine sends out, and to whom.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/sampling.h"

namespace fulmar {

struct AdapterLabel;

// How a row ended. Each family of routes tells its clients of all of them, by a switch without default.
enum class FinishReason : uint8_t {
  stop,       // at a stop id or text, or complete by its grammar
  length,     // at max_tokens
  cancelled,  // by a client, or because its client has gone
  paused,     // by a client; can be resumed by request id
  stopping,   // the server ends
  failed,
};

// Tells whether the row was cut: it could have gone on, and nothing has failed.
constexpr bool is_cut(FinishReason reason) {
  switch (reason) {
    case FinishReason::cancelled:
    case FinishReason::paused:
    case FinishReason::stopping:
      return true;
    case FinishReason::stop:
    case FinishReason::length:
    case FinishReason::failed:
      break;
  }
  return false;
}

// A kept token, released with the text that it ends in.
struct TokenRecord {
  int32_t token = 0;
  std::string bytes;     // may be part of a code point
  float logprob = 0.0f;  // only with sampling.top_logprobs >= 0
  std::vector<TokenLogprob> top;
};

struct Usage {
  int64_t prompt_tokens = 0;          // fed or restored, without what a session already held
  int64_t completion_tokens = 0;      // kept, stop id excluded
  int64_t cached_tokens = 0;          // of prompt_tokens: from a prefix snapshot; or session tokens reused
  int64_t accepted_draft_tokens = 0;  // drafted tokens that would have been drawn
  int64_t rejected_draft_tokens = 0;  // drafted tokens that would not
  std::shared_ptr<const AdapterLabel> adapter = nullptr;  // AdapterUse::label
};

struct Event {
  enum class Kind : uint8_t {
    admitted,  // the row has its slot
    text,      // more output; may be empty while a token's text is held back
    finished,  // last event of the row; carries remaining text and records
  };

  Kind kind = Kind::text;
  int32_t index = 0;
  std::chrono::steady_clock::time_point at;
  std::string text;                 // whole UTF-8 characters only
  int32_t sampled = 0;              // tokens drawn since the row's previous event
  std::vector<TokenRecord> tokens;  // filled only with sampling.top_logprobs >= 0

  // finished only
  FinishReason reason = FinishReason::stop;
  std::optional<int32_t> stop_id;  // which stop id ended it
  std::optional<std::string> stop_text;
  Usage usage;
  bool wrote_session = false;  // its write_session holds the state behind it
  std::optional<Error> error;  // with reason failed
  std::vector<TokenRecord>
      prompt_scores;             // with score_prompt: one per prompt token, the first without logprob
  std::vector<float> embedding;  // with embed: mean-pooled hidden state [C]
};

// Receives the events of one request, on the engine thread, perhaps while the device computes. It must return
// at once, never block, and call nothing of the engine but submit, cancel and erase_session. All rows of a
// request with events in one step arrive in one call.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void deliver(std::vector<Event> events) = 0;
};

}  // namespace fulmar
