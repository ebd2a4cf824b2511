#include "tensor/scale_search.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace fulmar {

namespace {

constexpr int64_t kMostValues = 32;

float step_of(ScaleTries tries, int i) {
  return -tries.reach + 2 * tries.reach * static_cast<float>(i) / static_cast<float>(tries.tries - 1);
}

// Returns the best of the starting scales, each fitted to the levels that it gives; nearest(x) is the level
// for x.
template <class Nearest>
float best_fit(const float* values, const float* importance, int64_t count, float lowest, ScaleTries tries,
               Nearest nearest) {
  const float start = inverse(signed_extreme(values, count));
  float best = -1, scale = 0;
  for (int t = 0; t < tries.tries; t++) {
    const float reciprocal = (lowest + step_of(tries, t)) * start;
    float cross = 0, square = 0;  // sums of w level value and w level²
    for (int64_t i = 0; i < count; i++) {
      const float counts = importance == nullptr ? values[i] * values[i] : importance[i];
      const float level = nearest(values[i] * reciprocal), weighted = counts * level;
      cross += weighted * values[i];
      square += weighted * level;
    }
    if (square <= 0) continue;
    const float fit = cross / square;  // the error is the values' own less fit * cross
    if (fit * cross > best) {
      best = fit * cross;
      scale = fit;
    }
  }
  return scale;
}

uint8_t nearest_index(std::span<const int8_t> levels, float x) {
  size_t index = 0;
  while (index + 1 < levels.size() && x > 0.5f * static_cast<float>(levels[index] + levels[index + 1]))
    index++;
  return static_cast<uint8_t>(index);
}

}  // namespace

float inverse(float d) {
  const float result = 1 / d;
  return std::isfinite(result) ? result : 0;
}

float signed_extreme(const float* values, int64_t count) {
  float extreme = values[0];
  for (int64_t i = 1; i < count; i++) {
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  }
  return extreme;
}

float search_scale(const float* values, const float* importance, int64_t count,
                   std::span<const int8_t> levels, ScaleTries tries, uint8_t* codes) {
  const float scale = best_fit(values, importance, count, levels[0], tries,
                               [&](float x) { return static_cast<float>(levels[nearest_index(levels, x)]); });
  const float reciprocal = inverse(scale);
  for (int64_t i = 0; i < count; i++) codes[i] = nearest_index(levels, values[i] * reciprocal);
  return scale;
}

float search_even_scale(const float* values, const float* importance, int64_t count, int half,
                        ScaleTries tries) {
  const auto low = static_cast<float>(-half), high = static_cast<float>(half - 1);
  return best_fit(values, importance, count, low, tries,
                  [&](float x) { return std::clamp(std::rint(x), low, high); });
}

Affine search_affine(const float* values, const float* importance, int64_t count, int top, float base) {
  FULMAR_CHECK(count <= kMostValues);
  constexpr int kTries = 21;
  const float least = std::min(*std::min_element(values, values + count), 0.0f);
  const float greatest = *std::max_element(values, values + count);
  if (greatest <= least) return {0, -least};
  float weights[kMostValues];
  float sum_w = 0, sum_x = 0;
  for (int64_t i = 0; i < count; i++) {
    weights[i] = importance == nullptr ? base + std::abs(values[i]) : importance[i];
    sum_w += weights[i];
    sum_x += weights[i] * values[i];
  }
  const float span = greatest - least;
  Affine best{span / static_cast<float>(top), -least};
  float best_error = INFINITY;
  for (int t = 0; t < kTries; t++) {
    const float reciprocal = (static_cast<float>(top) + step_of({1, kTries}, t)) / span;
    float codes[kMostValues];
    float sum_q = 0, sum_qq = 0, sum_qx = 0;
    for (int64_t i = 0; i < count; i++) {
      codes[i] = std::clamp(std::rint((values[i] - least) * reciprocal), 0.0f, static_cast<float>(top));
      const float weighted = weights[i] * codes[i];
      sum_q += weighted;
      sum_qq += weighted * codes[i];
      sum_qx += weighted * values[i];
    }
    const float determinant = sum_w * sum_qq - sum_q * sum_q;
    if (determinant <= 0) continue;
    float scale = (sum_w * sum_qx - sum_x * sum_q) / determinant;
    float minimum = (sum_qq * sum_x - sum_q * sum_qx) / determinant;
    if (minimum > 0) {  // a minimum is stored as what is subtracted: none is above zero
      minimum = 0;
      scale = sum_qx / sum_qq;
    }
    float error = 0;
    for (int64_t i = 0; i < count; i++) {
      const float off = scale * codes[i] + minimum - values[i];
      error += weights[i] * off * off;
    }
    if (error < best_error) {
      best_error = error;
      best = {scale, -minimum};
    }
  }
  return best;
}

}  // namespace fulmar
