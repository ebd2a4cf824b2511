// Which fused forms of islands a device runs, decided once when it is opened. Pure. The choice of GEMM
// kernels is gemm/kernels.h's.
#pragma once

#include <cstdint>

namespace fulmar::gpu {

// Which kernel runs the second low-rank GEMMs of RWKV-7 and project7's elementwise tail (bias, activation,
// value residual, key norm).
enum class LowRankEnd : uint8_t {
  by_rows,       // low_rank_finish7 or finish_panels7, whichever is faster at the batch size
  panels,        // finish_panels7 at any batch size
  two_launches,  // a grouped GEMM launch, then finish_project7
};

struct IslandWays {
  bool lone_row = true;     // fused kernels at batch 1
  bool few_rows = true;     // a fused feed-forward at few rows (ffn_rows, ffn_packed)
  bool short_rows = true;   // enter_short begins half blocks of sequences of few rows
  bool walk_leaves = true;  // the per-token WKV kernel also applies head norm, bonus and gate
  bool raw_chunks = true;   // project7's elementwise tail is fused into the chunked recurrence
  LowRankEnd low_rank_end = LowRankEnd::by_rows;
  // One order of summation at any batch size, and states written on the same schedule at batch 1 as at
  // others.
  bool fixed_order = false;
};

// The facts of a device, and the options it was opened with, that the choice depends on.
struct IslandDevice {
  bool matrix_units = false, panels = false;
  bool deterministic = false;  // DeviceOptions::deterministic
};

// Returns the forms that the device runs. Deterministic mode disables fused kernels that are used only at
// certain batch sizes or compositions: they round or add in another order.
constexpr IslandWays island_ways(const IslandDevice& device) {
  IslandWays ways;
  ways.lone_row = ways.few_rows = device.matrix_units && !device.deterministic;
  ways.short_rows = device.panels && !device.deterministic;
  ways.walk_leaves = ways.raw_chunks = !device.deterministic;
  if (!device.matrix_units || (device.deterministic && !device.panels)) {
    ways.low_rank_end = LowRankEnd::two_launches;
  } else if (device.deterministic) {
    ways.low_rank_end = LowRankEnd::panels;
  }
  ways.fixed_order = device.deterministic;
  return ways;
}

}  // namespace fulmar::gpu
