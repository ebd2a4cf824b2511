// How a row's parameters decide the way it is drawn: one rule for every backend's sampler.
#pragma once

#include "ops/sampling.h"

namespace fulmar {

struct SamplingMode {
  bool greedy = false;       // the likeliest id
  bool noisy = false;        // the likeliest after noise; neither: a draw by weights
  float temperature = 1.0f;  // divisor of the logits
  double power = 0;          // exponent of the weights after top_k and top_p (temperature_last); 0: none
};

// Returns how a row with these parameters is drawn. `given`: its own id is scored, as in a greedy draw.
inline SamplingMode sampling_mode(const SamplingParams& params, bool given = false) {
  constexpr float kSmallestTemperature = 0.001f;
  const bool cold = params.temperature < kSmallestTemperature;
  SamplingMode mode;
  mode.noisy = params.noise != NoiseKind::none && !cold && !given;
  mode.greedy = given || (params.noise != NoiseKind::none ? cold : params.greedy());
  const bool later = params.temperature_last && !mode.noisy;
  if (!cold && !later) mode.temperature = params.temperature;
  if (!cold && later) mode.power = 1.0 / params.temperature;
  return mode;
}

// Returns whether a draw needs only the survey of the whole vocabulary and the logits of one of its slices.
inline bool survey_suffices(const SampleRow& row) {
  const SamplingParams& params = *row.params;
  const SamplingMode mode = sampling_mode(params, row.given >= 0);
  if (mode.noisy || params.top_logprobs > 0) return false;
  return mode.greedy ||
         (params.top_k <= 0 && params.top_p >= 1.0f && params.min_p <= 0.0f && mode.power == 0);
}

}  // namespace fulmar
