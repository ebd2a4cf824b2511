// Sampling on the device: a draw's parameters as plain data, and the kernels' launches.
#pragma once

#include <cstdint>

#include "gpu/device/device.h"
#include "ops/survey.h"
#include "tensor/tensor.h"

namespace fulmar::gpu {

struct SampleChange {
  int32_t token;
  float added;
};

struct SampleJob {
  int64_t logits_row = 0;
  uint64_t seed = 0, position = 0;
  int32_t changes = 0, biases = 0,
          // index of the first change; numbers of biases and of the penalties after them
      penalties = 0;
  int32_t bans = 0, banned = 0;       // index of the first ban, and their number
  int32_t stops = 0, stop_count = 0;  // index of the first id that ends the sequence, and their number
  int32_t top_k = 0;                  // <= 0: no limit
  float inverse_temperature = 1, top_p = 1, min_p = 0;
  double power = 0;  // with temperature_last, the power that kept weights are raised to; 0: none
  int32_t greedy = 0, logprob = 0, likeliest = 0;  // likeliest: length of the list wanted
  int32_t noise = 0;                               // a NoiseKind: draw by noise
  int32_t given = -1;                              // an id that is taken without a draw
  float noise_scale = 0;
  // first word of the mask of allowed ids and their number; 0 words: all ids
  int32_t masks = 0, mask_words = 0;
};

constexpr int kMostLikeliest = 20;  // longest list; longer ones are made on the host

struct SampleResult {
  int32_t token = 0;
  float logprob = 0;
  int32_t stops = 0;
};

struct LikelyTokens {
  int32_t count = 0;
  int32_t token[kMostLikeliest] = {};
  float logprob[kMostLikeliest] = {};
};

// Device arrays that jobs refer to by index.
struct SampleLists {
  const SampleChange* changes;
  const int32_t* ids;
  const uint64_t* masks;
};

// The survey of one slice of a row's ids.
constexpr int kSampleSlices = kSurveySlices, kSampleGroups = 8;
struct SampleSlice {
  float best;
  int32_t best_id;
  double sum;                       // of weights relative to the best
  float group_best[kSampleGroups];  // best values of equal groups of the slice
};

// The ids [begin, end) of a vocabulary, whole slices of its survey: the rank that computes their logits
// surveys them.
struct VocabularyPart {
  const float* logits = nullptr;  // [rows, end - begin], of all rows of the step; read only
  int64_t stride = 0;
  float* work = nullptr;  // [count, end - begin]: adjusted logits
  int64_t work_stride = 0;
  SampleSlice* slices = nullptr;  // [count, kSampleSlices]: the survey writes those of its ids
  int begin = 0, end = 0;
};
constexpr int kMostParts = 8;
struct VocabularyParts {  // all of a vocabulary, in order
  VocabularyPart part[kMostParts];
  int count = 0;
};

// Replaces the tokens -1 - i of a step by drawn ids, and redirects rows whose id ends their sequence to the
// spare slot.
void feed_drawn(const Queue&, const SampleResult* drawn, int64_t rows, int32_t spare_slot, int32_t* token,
                int32_t* slot);

// The jobs of one launch, one a block.
struct SampleJobs {
  int64_t count = 0;
  const SampleJob* jobs = nullptr;  // [count]
  SampleLists lists;
  int64_t vocab = 0;
};

// Surveys a part for all jobs.
void survey(const Queue&, const SampleJobs&, const VocabularyPart& part);
// Draws for all jobs from all parts, which were surveyed and are readable from this device. work: f32
// [count, V], may be the first part's. `results` and `likely` (written where a job wants a list) may be in
// host memory.
void draw(const Queue&, const SampleJobs&, const VocabularyParts& parts, float* work, SampleResult* results,
          LikelyTokens* likely);
// Draws the same tokens with smaller blocks, where survey_suffices (ops/sampling_mode.h) for all of the jobs.
void draw_surveyed(const Queue&, const SampleJobs&, const VocabularyParts& parts, SampleResult* results);

}  // namespace fulmar::gpu
