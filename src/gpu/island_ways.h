// Which fused forms of islands a device runs, decided once when it is opened. Pure: data and the function
// that looks it up. What products do is gemm/kernels.h's business.
#pragma once

#include <cstdint>

namespace fulmar::gpu {

// Who finds the second halves of RWKV-7's low-rank paths, and what project7 owes behind them.
enum class LowRankEnd : uint8_t {
  by_rows,       // low_rank_finish7 or finish_panels7, whichever is quicker for so many rows
  panels,        // finish_panels7, whatever the number of rows
  two_launches,  // products in a launch of their own, then finish_project7
};

struct IslandWays {
  bool lone_row = true;     // a lone row has kernels of its own
  bool few_rows = true;     // few rows have a feed-forward of their own (ffn_rows, ffn_packed)
  bool short_rows = true;   // sequences of few rows begin a half block by enter_short
  bool walk_leaves = true;  // the recurrence token by token finds what the output product takes (attend)
  bool raw_chunks = true;   // a recurrence in chunks takes raw projections where all sequences go so
  LowRankEnd low_rank_end = LowRankEnd::by_rows;
  // Sums have one order whatever the number of rows, and a lone row's state is written when that of any other
  // is.
  bool fixed_order = false;
};

// What the choice knows of a device, and what it was opened for.
struct IslandDevice {
  bool matrix_units = false, panels = false;
  bool deterministic = false;  // DeviceOptions::deterministic
};

// Forms that are taken for some numbers of rows or some neighbours alone are no form of a deterministic step:
// they round elsewhere, or add up in another order.
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
