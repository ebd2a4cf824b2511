#include "model/warm_up.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace fulmar {

Status warm_up(Model& model) {
  const std::vector<int64_t> sizes = model.rows_to_warm();
  if (sizes.empty()) return {};
  FULMAR_ASSIGN(StatePool states, model.make_states(1));
  const std::vector<int32_t> token(static_cast<size_t>(sizes.back()));
  std::vector<int32_t> row(token.size());
  std::iota(row.begin(), row.end(), 0);
  const int32_t slot[] = {0};
  for (const int64_t rows : sizes) {
    const int32_t start[] = {0, static_cast<int32_t>(rows)};
    const auto all = static_cast<size_t>(rows);
    states.zero(slot[0]);
    model.forward(
        {.token = std::span(token).first(all),
         .start = start,
         .slot = slot,
         .wanted = std::span(row).first(all).last(std::min(all, static_cast<size_t>(model.max_wanted())))},
        states);
  }
  model.synchronise();
  return {};
}

}  // namespace fulmar
