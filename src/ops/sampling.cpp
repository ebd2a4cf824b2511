// The reference sampler: one row of logits to one token. Pure; knows no backend and keeps no state.
#include "ops/sampling.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "ops/philox.h"
#include "ops/sampling_mode.h"

namespace fulmar {

void PenaltyMemory::record(int32_t token, const SamplingParams& params) {
  if (!params.penalised()) return;
  Seen* found = nullptr;
  for (Seen& one : seen) {
    one.penalty *= params.decay;
    if (one.token == token) found = &one;
  }
  if (found != nullptr) {
    found->penalty += params.frequency;
  } else {
    seen.push_back({token, params.presence});
  }
}

namespace {

constexpr float kDropped = -std::numeric_limits<float>::infinity();
constexpr float kSmallestExponential = 6.2e-5f;  // bounds Gumbel noise at 9.7, as clients of the route expect
constexpr size_t kBlock = 64;                    // ids per partial sum or maximum

struct Candidate {
  float weight;
  int32_t token;
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

// Returns e^x for x <= 0 with relative error below 3e-7, in a form that compilers vectorise.
inline float exp_nonpositive(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0f ? -87.0f : x;
  const float n = x * 1.44269504f + kShift;
  const float whole = n - kShift;
  const float f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float sum = 1.9875691e-4f;
  sum = sum * f + 1.3981999e-3f;
  sum = sum * f + 8.3334519e-3f;
  sum = sum * f + 4.1665796e-2f;
  sum = sum * f + 1.6666665e-1f;
  sum = sum * f + 5.0000001e-1f;
  sum = sum * f * f + f + 1.0f;
  const int32_t exponent = std::bit_cast<int32_t>(n) - std::bit_cast<int32_t>(kShift);
  return sum * std::bit_cast<float>((exponent + 127) << 23);
}

// Adds biases and penalties, replaces non-finite logits and drops forbidden ids (step 1).
void adjust(std::span<float> z, const SampleRow& row) {
  for (float& value : z) {
    value = value == value ? value : 0.0f;
    value = value > FLT_MAX ? FLT_MAX : value;
    value = value < -FLT_MAX ? -FLT_MAX : value;
  }
  const auto in_range = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < z.size(); };
  const SamplingParams& params = *row.params;
  for (const auto& [id, bias] : params.logit_bias) {
    if (in_range(id)) z[id] = std::clamp(z[id] + bias, -FLT_MAX, FLT_MAX);
  }
  if (row.memory != nullptr && params.penalised()) {
    for (const auto& [id, penalty] : row.memory->seen) {
      if (in_range(id)) z[id] = std::clamp(z[id] - penalty, -FLT_MAX, FLT_MAX);
    }
  }
  for (const int32_t id : params.banned) {
    if (in_range(id)) z[id] = kDropped;
  }
  for (const int32_t id : row.banned_here) {
    if (in_range(id)) z[id] = kDropped;
  }
  if (row.allowed.empty()) return;
  for (size_t word = 0; word * 64 < z.size(); word++) {
    const uint64_t bits = word < row.allowed.size() ? row.allowed[word] : 0;
    if (bits == ~uint64_t{0}) continue;
    for (size_t i = word * 64; i < std::min(z.size(), (word + 1) * 64); i++) {
      if ((bits >> (i % 64) & 1) == 0) z[i] = kDropped;
    }
  }
}

float maximum(std::span<const float> values) {
  float lanes[16];
  std::fill(std::begin(lanes), std::end(lanes), kDropped);
  size_t i = 0;
  for (; i + 16 <= values.size(); i += 16) {
    for (size_t lane = 0; lane < 16; lane++) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  float best = *std::max_element(std::begin(lanes), std::end(lanes));
  for (; i < values.size(); i++) best = std::max(best, values[i]);
  return best;
}

int32_t first_equal(std::span<const float> values, float wanted) {
  return static_cast<int32_t>(std::find(values.begin(), values.end(), wanted) - values.begin());
}

// Returns the `count` likeliest ids of z with their log-probabilities.
std::vector<TokenLogprob> likeliest(std::span<const float> z, size_t count, float inverse_temperature,
                                    double log_normaliser) {
  std::vector<Candidate> best;  // a heap with the least likely in front
  for (size_t i = 0; i < z.size() && count > 0; i++) {
    if (z[i] == kDropped || (best.size() == count && !(z[i] > best.front().weight))) continue;
    if (best.size() == count) {
      std::pop_heap(best.begin(), best.end(), likelier);
      best.pop_back();
    }
    best.push_back({z[i], static_cast<int32_t>(i)});
    std::push_heap(best.begin(), best.end(), likelier);
  }
  std::sort(best.begin(), best.end(), likelier);
  std::vector<TokenLogprob> out;
  for (const Candidate& one : best) {
    const double scaled = static_cast<double>(one.weight) * inverse_temperature;
    out.push_back({one.token, static_cast<float>(scaled - log_normaliser)});
  }
  return out;
}

// Replaces z by exp((z - top) / T) and returns the sum; sums[b] is that of block b.
double exponentiate(std::span<float> z, float top, float inverse_temperature, std::vector<float>& sums) {
  sums.assign((z.size() + kBlock - 1) / kBlock, 0.0f);
  double total = 0;
  for (size_t b = 0; b < sums.size(); b++) {
    const std::span<float> block = z.subspan(b * kBlock, std::min(kBlock, z.size() - b * kBlock));
    // Dropped ids weigh exactly zero, however small the other weights are.
    for (float& value : block) {
      const float weight = exp_nonpositive((value - top) * inverse_temperature);
      value = value == kDropped ? 0.0f : weight;
    }
    float lanes[8] = {};
    size_t i = 0;
    for (; i + 8 <= block.size(); i += 8) {
      for (size_t lane = 0; lane < 8; lane++) lanes[lane] += block[i + lane];
    }
    for (; i < block.size(); i++) lanes[i % 8] += block[i];
    for (const float lane : lanes) sums[b] += lane;
    total += sums[b];
  }
  return total;
}

// Returns the number in (0, 1) that this token's draw uses.
double draw_unit(const SampleRow& row) {
  const PhiloxBlock random = philox(row.params->seed, row.position);
  const uint64_t bits = (static_cast<uint64_t>(random.x[0]) << 20) ^ (random.x[1] >> 12);
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

// Returns the id at share `unit` of the whole mass, in order of ids.
int32_t draw_uncut(std::span<const float> weights, std::span<const float> sums, double total, double unit) {
  double remaining = unit * total;
  size_t block = 0, last_block = 0;
  for (size_t b = 0; b < sums.size(); b++) {
    if (sums[b] <= 0) continue;
    block = last_block = b;
    if (remaining < sums[b]) break;
    remaining -= sums[b];
  }
  int32_t chosen = 0;
  for (size_t i = block * kBlock; i < std::min(weights.size(), (block + 1) * kBlock); i++) {
    if (weights[i] <= 0) continue;
    chosen = static_cast<int32_t>(i);
    if (remaining < weights[i]) break;
    remaining -= weights[i];
  }
  return chosen;
}

int32_t draw_from(std::span<const Candidate> kept, double unit) {
  double total = 0;
  for (const Candidate& one : kept) total += one.weight;
  double remaining = unit * total;
  for (const Candidate& one : kept) {
    if (remaining < one.weight) return one.token;
    remaining -= one.weight;
  }
  return kept.back().token;
}

// Returns a lower bound on the weights of kept ids. Ids lighter than (1 - top_p) * total / V weigh less than
// 1 - top_p together; and if k blocks have maxima of at least a value, so have k ids.
float least_kept(std::span<const float> weights, double total, size_t k, float top_p) {
  const double by_mass = (1.0 - top_p) * total / static_cast<double>(weights.size());
  float bound = top_p < 1.0f ? static_cast<float>(by_mass) * 0.999f : 0.0f;
  if (k < weights.size() / kBlock) {
    std::vector<float> maxima;
    for (size_t i = 0; i < weights.size(); i += kBlock) {
      maxima.push_back(maximum(weights.subspan(i, std::min(kBlock, weights.size() - i))));
    }
    std::nth_element(maxima.begin(), maxima.begin() + static_cast<std::ptrdiff_t>(k) - 1, maxima.end(),
                     std::greater<>());
    bound = std::max(bound, maxima[k - 1]);
  }
  return bound;
}

// Keeps the likeliest ids, in that order, until `k` of them or the share top_p of the mass is reached (step
// 3). Ids tied at the boundary share the rest of the count and the mass.
void cut(std::vector<Candidate>& candidates, double total, size_t k, float top_p) {
  const double wanted_mass = top_p < 1.0f ? top_p * total : std::numeric_limits<double>::infinity();
  double above = 0;                       // mass before the current run of ties
  size_t sorted = 0, begin = 0, end = 0;  // [begin, end): that run
  const auto sort_more = [&] {
    const size_t next = std::min(candidates.size(), std::max<size_t>(64, sorted * 4));
    const auto from = candidates.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto to = candidates.begin() + static_cast<std::ptrdiff_t>(next);
    std::partial_sort(from, to, candidates.end(), likelier);
    sorted = next;
  };
  while (begin < candidates.size()) {
    if (begin == sorted) sort_more();
    const float weight = candidates[begin].weight;
    end = begin;
    while (true) {
      if (end == sorted && end < candidates.size()) sort_more();
      if (end == candidates.size() || candidates[end].weight != weight) break;
      end++;
    }
    const double ties = static_cast<double>(end - begin);
    if (end >= k || above + ties * weight >= wanted_mass) {
      const double by_mass = (wanted_mass - above) / (weight * ties);
      const double by_count = static_cast<double>(k - std::min(k, begin)) / ties;
      const float share = static_cast<float>(std::clamp(std::min(by_mass, by_count), 0.0, 1.0));
      for (size_t i = begin; i < end; i++) candidates[i].weight *= share;
      candidates.resize(end);
      return;
    }
    above += ties * weight;
    begin = end;
  }
}

// Draws an id by weights whose largest is 1 (steps 3 and 4).
int32_t draw_cut(std::span<const float> weights, double total, double power, const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const size_t k = params.top_k <= 0 ? weights.size()
                                     : std::min<size_t>(weights.size(), static_cast<size_t>(params.top_k));
  const bool limited = k < weights.size() || params.top_p < 1.0f;
  const float bound = std::max(limited ? least_kept(weights, total, k, params.top_p) : 0.0f, params.min_p);
  std::vector<Candidate> kept;
  for (size_t i = 0; i < weights.size(); i++) {
    if (weights[i] >= bound && weights[i] > 0) kept.push_back({weights[i], static_cast<int32_t>(i)});
  }
  if (limited) cut(kept, total, k, params.top_p);
  if (power != 0) {
    const float largest = std::min_element(kept.begin(), kept.end(), likelier)->weight;
    for (Candidate& one : kept) one.weight = static_cast<float>(std::pow(one.weight / largest, power));
  }
  return draw_from(kept, draw_unit(row));
}

// Returns the argmax of z / T plus noise, drawn per id.
int32_t draw_noisy(std::span<const float> z, float inverse_temperature, const SampleRow& row) {
  float best = kDropped;
  int32_t chosen = 0;
  PhiloxBlock random{};
  for (size_t i = 0; i < z.size(); i++) {
    if (i % 4 == 0) random = philox(row.params->seed, row.position, i / 4 + 1);
    if (z[i] == kDropped) continue;
    const float unit = to_unit(random.x[i % 4]);
    const float noise = row.params->noise == NoiseKind::gumbel
                            ? -std::log(std::max(-std::log(unit), kSmallestExponential))
                            : unit * row.params->noise_scale;
    const float value = z[i] * inverse_temperature + noise;
    if (value > best) {
      best = value;
      chosen = static_cast<int32_t>(i);
    }
  }
  return chosen;
}

SampledToken draw_token(std::span<float> logits, const SampleRow& row) {
  const SamplingParams& params = *row.params;
  adjust(logits, row);
  const float top = maximum(logits);
  SampledToken sampled;
  const bool given = row.given >= 0;
  if (given) sampled.token = row.given;
  if (top == kDropped) return sampled;

  const auto [greedy, noisy, temperature, power] = sampling_mode(params, given);
  const float inverse_temperature = 1.0f / temperature;
  const bool logprobs = params.top_logprobs >= 0;

  if (greedy && !given) sampled.token = first_equal(logits, top);
  if (noisy) sampled.token = draw_noisy(logits, inverse_temperature, row);
  if ((greedy || noisy) && !logprobs) return sampled;

  std::vector<float> weights(logits.begin(), logits.end());
  std::vector<float> sums;
  const double total = exponentiate(weights, top, inverse_temperature, sums);
  if (!greedy && !noisy) {
    const bool limited = (params.top_k > 0 && static_cast<size_t>(params.top_k) < logits.size()) ||
                         params.top_p < 1.0f || params.min_p > 0.0f || power != 0;
    sampled.token =
        limited ? draw_cut(weights, total, power, row) : draw_uncut(weights, sums, total, draw_unit(row));
  }
  if (logprobs) {
    const double log_normaliser = static_cast<double>(top) * inverse_temperature + std::log(total);
    sampled.logprob = static_cast<float>(static_cast<double>(logits[static_cast<size_t>(sampled.token)]) *
                                             inverse_temperature -
                                         log_normaliser);
    sampled.top =
        likeliest(logits, static_cast<size_t>(params.top_logprobs), inverse_temperature, log_normaliser);
  }
  return sampled;
}

}  // namespace

SampledToken sample_row(std::span<float> logits, const SampleRow& row) {
  SampledToken drawn = draw_token(logits, row);
  drawn.stops = std::find(row.stops.begin(), row.stops.end(), drawn.token) != row.stops.end();
  return drawn;
}

}  // namespace fulmar
