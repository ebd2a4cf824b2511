// A backend whose devices can draw together (ops/shared_draws.h) is one of these beside its Ops.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "ops/shared_draws.h"

namespace fulmar {

class Ops;

class DrawsSource {
 public:
  virtual ~DrawsSource() = default;

  // Draws of a group of ranks, this device being the first of them, from V ids; null where it does not reach
  // the others' logits. A rank that waits for another one longer than the time-out throws DeviceFailure,
  // naming it.
  virtual Result<std::unique_ptr<SharedDraws>> draws_of(std::span<Ops* const> group, int64_t vocab,
                                                        std::chrono::milliseconds timeout) = 0;
};

}  // namespace fulmar
