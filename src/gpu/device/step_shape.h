// Which steps are captured as graphs, and how decode steps are padded so that few graphs serve all sizes.
// Pure. Numbers were measured on an H200 with RWKV-7 7.2B.
#pragma once

#include <cstdint>

namespace fulmar::gpu {

// Longest sequence (in rows of a step) that the recurrence runs token by token; longer ones run in chunks.
constexpr int64_t kMostRecurrentRows = 16;

// Largest steps that are captured: with one row per sequence, and with several rows of one sequence (as when
// drafts are checked). Several sequences of several rows come in too many shapes.
constexpr int64_t kMostCapturedRows = 1024, kMostCapturedRowsOfOne = 16;
static_assert(kMostCapturedRowsOfOne <= kMostRecurrentRows);
constexpr bool is_captured(int64_t rows, int64_t sequences, int64_t wanted) {
  if (rows == sequences) return rows <= kMostCapturedRows && (wanted == 0 || wanted == rows);
  return sequences == 1 && rows <= kMostCapturedRowsOfOne && (wanted <= 1 || wanted == rows);
}

// Decode steps of at least `above` rows are padded to multiples of `grain` rows.
struct Padding {
  int64_t above;
  int64_t grain;
};
constexpr Padding kPaddings[] = {{256, 64}, {128, 32}, {32, 16}, {8, 4}, {0, 1}};

constexpr int64_t padded_rows(int64_t rows) {
  for (const Padding& padding : kPaddings) {
    if (rows > padding.above) return (rows + padding.grain - 1) / padding.grain * padding.grain;
  }
  return rows;
}

}  // namespace fulmar::gpu
