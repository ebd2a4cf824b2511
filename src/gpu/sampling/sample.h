// Sampling on the device: what one token's draw needs, as plain data, and the kernel's launch.
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
          penalties = 0;              // first change; how many biases and, behind them, penalties
  int32_t bans = 0, banned = 0;       // first ban and their number
  int32_t stops = 0, stop_count = 0;  // first id that ends the sequence and their number
  int32_t top_k = 0;                  // <= 0: no limit
  float inverse_temperature = 1, top_p = 1, min_p = 0;
  double power = 0;  // with temperature_last, what kept weights are raised to; 0: nothing
  int32_t greedy = 0, logprob = 0, likeliest = 0;  // likeliest: length of the list wanted
  int32_t noise = 0;                               // a NoiseKind, in place of a draw
  int32_t given = -1;                              // an id, in place of a draw
  float noise_scale = 0;
  int32_t masks = 0, mask_words = 0;  // first word of the ids allowed and their number; 0 words: all
};

constexpr int kMostLikeliest = 20;  // of a list; longer ones are the host's

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

// What the jobs refer to by index, on the device.
struct SampleLists {
  const SampleChange* changes;
  const int32_t* ids;
  const uint64_t* masks;
};

// What a part of a row's ids comes to.
constexpr int kSampleSlices = kSurveySlices, kSampleGroups = 8;
struct SampleSlice {
  float best;
  int32_t best_id;
  double sum;                       // of what each id weighs relative to the best
  float group_best[kSampleGroups];  // of groups that the slice is divided into
};

// The ids [begin, end) of a vocabulary, from the border of one slice of its survey to that of another:
// whoever has computed their logits surveys them.
struct VocabularyPart {
  const float* logits = nullptr;  // [rows, end - begin], of all rows of the step; they stay as they are
  int64_t stride = 0;
  float* work = nullptr;  // [count, end - begin]: logits as the jobs adjust them
  int64_t work_stride = 0;
  SampleSlice* slices = nullptr;  // [count, kSampleSlices]: those of its ids are found here
  int begin = 0, end = 0;
};
constexpr int kMostParts = 8;
struct VocabularyParts {  // all, in order
  VocabularyPart part[kMostParts];
  int count = 0;
};

// Puts drawn ids where a step's tokens are -1 - i, and sends rows whose id ends them to the spare slot.
void feed_drawn(const Queue&, const SampleResult* drawn, int64_t rows, int32_t spare_slot, int32_t* token,
                int32_t* slot);

// Surveys the part for so many jobs.
void survey(const Queue&, int64_t count, const SampleJob* jobs, const SampleLists& lists,
            const VocabularyPart& part, int64_t vocab);
// Draws for them from all parts, which were surveyed and lie where this device reaches them. work: f32
// [count, V], which that of the first part may be. results and likely, which is written where a job wants a
// list, may lie in host memory.
void draw(const Queue&, int64_t count, const SampleJob* jobs, const SampleLists& lists,
          const VocabularyParts& parts, int64_t vocab, float* work, SampleResult* results,
          LikelyTokens* likely);
// The same, with the same tokens, where survey_suffices (ops/sampling_mode.h) for all of the jobs.
void draw_surveyed(const Queue& queue, int64_t count, const SampleJob* jobs, const SampleLists& lists,
                   const VocabularyParts& parts, int64_t vocab, SampleResult* results);

}  // namespace fulmar::gpu
