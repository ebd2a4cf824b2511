// What comes into the engine: one Ask per row, plain data, tokens only. The engine never sees JSON or HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/device_adapter.h"
#include "ops/deltas.h"
#include "ops/sampling.h"

namespace fulmar {

// The ids that may come next in a constrained answer; one per row, driven by the engine thread.
class TokenMask {
 public:
  virtual ~TokenMask() = default;
  // Returns a bit per id (least significant bit of word 0 is id 0), valid until the next call. Empty: all
  // allowed.
  virtual std::span<const uint64_t> allowed() = 0;
  // Returns whether allowed() is already computed.
  virtual bool ready() const = 0;
  // Computes allowed(); returns the cost in the units that TokenTree counts, 0 if it was ready.
  virtual size_t prepare() = 0;
  // Returns the next token where the text to come and its division into tokens are determined.
  virtual std::optional<int32_t> forced() { return std::nullopt; }
  // Advances the mask by a token that is now part of the text.
  virtual void accept(int32_t token) = 0;
  // Returns whether the text is complete, so that only a stop may follow.
  virtual bool complete() const = 0;
  // Returns whether a stop id, drawn here, ends the row; else it is a token of the text.
  virtual bool heeds(int32_t /*stop*/) const { return true; }
  // Returns an independent copy that continues from here.
  virtual std::unique_ptr<TokenMask> fork() const = 0;
};

struct StopRules {
  std::vector<int32_t> ids;        // end the row when drawn: not emitted, not fed, not counted
  std::vector<std::string> texts;  // end the row when they appear; the earliest start wins; text is cut there
  bool include_text = false;       // keep the matched text in the output
  // Once these texts have all been output in this order, no stop text ends the row any more that starts after
  // the last of them begins. Empty: stop texts always end the row.
  std::vector<std::string> until = {};
};

// Ids that may not be drawn as generated token number `position` (0-based).
struct BannedAt {
  int64_t position = 0;
  std::vector<int32_t> ids;
};

// One state of a mixture. Each member has a slot of its own and is fed the row's tokens; the draw is from the
// mean of their logits, by weight.
struct MixtureMember {
  std::string state;    // name of a tuned state; empty: the zero state
  double weight = 0.0;  // any finite number; those of a row do not add up to 0
};

// Where a row's state comes from and where it is saved. Empty strings: the zero state, and not saved.
struct StateLink {
  std::string read_session;   // continue this session when it exists
  bool must_exist = false;    // a missing read_session fails the row
  std::string write_session;  // commit here after a normal end
  // Both sessions are the server's own: it has named them itself, and checks who may continue them.
  bool server_named = false;
  std::vector<int32_t> continuing;  // fed in place of the prompt when read_session existed; empty: the prompt
  bool keep_on_cancel = false;      // commit the session when the row is cancelled, too
  std::string initial_state;        // name of a tuned state to start from when no session was found
  std::vector<MixtureMember> mixture;  // instead of all the above: such a row has no session
};

// What figures and pages tell of the adapter that a request has named.
struct AdapterLabel {
  std::string id, version;
  double strength = 1;  // t; 0: the base model
};

// The adapter that a row is computed with.
struct AdapterUse {
  std::shared_ptr<const DeviceAdapter> adapter;  // null: none. Kept until the row's last step is over
  float scale = 1;                               // t
  // Of what is changed: the adapter's version and t. Equal ones give equal states; empty: none.
  std::string identity;
  std::shared_ptr<const AdapterLabel> label;  // null: none was named

  SequenceDeltas deltas() const {
    return adapter ? SequenceDeltas{&adapter->deltas(), scale} : SequenceDeltas();
  }
};

struct Ask {
  std::string request_id;       // unique among running requests; all rows of one request share it
  int32_t index = 0;            // which choice of the request
  std::vector<int32_t> prompt;  // at least one id, all within the vocabulary
  SamplingParams sampling;
  int64_t max_tokens = 0;  // 0: the prompt is fed, nothing is drawn
  StopRules stop;
  std::vector<BannedAt> banned_at;
  std::shared_ptr<TokenMask> mask;  // nullptr: everything allowed
  bool use_prefix_cache = true;
  // Also compute the log-probability of each prompt token but the first (sampling.top_logprobs applies).
  bool score_prompt = false;
  bool embed = false;     // mean and last hidden state of the prompt instead of text; max_tokens is 0
  bool speculate = true;  // drafts may be used where the engine has any
  std::vector<int32_t> prediction;  // what the output may begin with, as a draft; empty: not known
  StateLink state;
  AdapterUse adapter = {};
};

// Returns the ids that may not be drawn as this generated token.
inline std::span<const int32_t> banned_at(const Ask& ask, uint64_t position) {
  for (const BannedAt& banned : ask.banned_at) {
    if (banned.position == static_cast<int64_t>(position)) return banned.ids;
  }
  return {};
}

}  // namespace fulmar
