// Sampling (temperature, top-k, top-p or nucleus, min-p, penalties): parameters, the per-sequence penalty
// memory, and the reference sampler (docs/model.md, "Sampling"; docs/http.md, "Sampling order").
//
// Order for one token:
//   1. z = logits + logit_bias - p; masked and banned ids drop out
//   2. divide by temperature, softmax      (with temperature_last: softmax here, power 1/T after step 3)
//   3. top_k and top_p together, then min_p; tokens tied at the boundary share the remaining mass
//   4. draw with Philox keyed by the seed, counter = index of the generated token
//   5. p <- decay * p; p[token] += presence when first drawn in this sequence, else frequency
// Greedy (temperature 0, top_k 1 or top_p 0) takes the lowest id among equal maxima.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fulmar {

// Noise that replaces the draw, on the big-batch route.
enum class NoiseKind : uint8_t { none, gumbel, uniform };

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy; otherwise 0.001 to 1000
  int32_t top_k = 0;         // <= 0 or > V: no limit
  float top_p = 1.0f;        // 0: greedy; [0, 1]
  float min_p = 0.0f;        // [0, 1]
  float presence = 0.0f;
  float frequency = 0.0f;
  float decay = 0.996f;  // [0, 1]
  bool temperature_last = false;
  NoiseKind noise = NoiseKind::none;
  float noise_scale = 0.0f;  // uniform noise is drawn from [0, noise_scale)
  uint64_t seed = 0;
  std::vector<std::pair<int32_t, float>> logit_bias;  // distinct ids below V
  std::vector<int32_t> banned;                        // ids that can never be drawn
  int32_t top_logprobs = -1;  // -1: no log-probabilities; 0: of the drawn token; n: of the n likeliest, too

  bool greedy() const { return temperature < 0.001f || top_k == 1 || top_p == 0.0f; }
  bool penalised() const { return presence != 0.0f || frequency != 0.0f; }
};

// A sequence's penalties for its own tokens. Starts empty with each request; prompt tokens never count.
struct PenaltyMemory {
  struct Seen {
    int32_t token;
    float penalty;
  };
  std::vector<Seen> seen;  // tokens drawn so far, in order of first appearance

  void record(int32_t token, const SamplingParams& params);
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0.0f;
};

struct SampledToken {
  int32_t token = 0;
  float logprob = 0.0f;           // only with top_logprobs >= 0; after bias, penalties, masks and temperature
  std::vector<TokenLogprob> top;  // likeliest first; ties by lowest id
  bool stops = false;             // one of the row's stop ids
};

// One token to draw. Pointers stay valid during the call only.
struct SampleRow {
  int32_t logits_row = 0;
  int32_t slot = 0;
  uint64_t position = 0;  // index of the generated token within its request
  const SamplingParams* params = nullptr;
  const PenaltyMemory* memory = nullptr;  // nullptr: nothing drawn yet
  std::span<const uint64_t> allowed;      // bit per id; empty: all allowed
  std::span<const int32_t> banned_here;   // ids banned for this token only
  std::span<const int32_t> stops;         // ids that end the sequence
  int32_t given = -1;                     // >= 0: this id is scored, nothing is drawn
};

// Draws one row by the reference sampler, with `logits` [V] as working memory. Pure; does not update the
// penalty memory.
SampledToken sample_row(std::span<float> logits, const SampleRow& row);

}  // namespace fulmar
