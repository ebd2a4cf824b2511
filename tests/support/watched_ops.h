// The CPU backend with something done in front of each of its steps: counting, waiting, failing.
#pragma once

#include <functional>
#include <utility>

#include "cpu/cpu_backend.h"

namespace fulmar::support {

class WatchedOps final : public CpuOps {
 public:
  // `asynchronous`: as a device that computes on its own answers; the steps themselves are the CPU's.
  explicit WatchedOps(std::function<void()> before_step, bool asynchronous = false)
      : CpuOps({.threads = 1}), before_step_(std::move(before_step)), asynchronous_(asynchronous) {}

  bool asynchronous() const override { return asynchronous_; }
  Batch begin_step(const StepInput& input, const State& state) override {
    if (before_step_) before_step_();
    return CpuOps::begin_step(input, state);
  }

 private:
  const std::function<void()> before_step_;
  const bool asynchronous_;
};

}  // namespace fulmar::support
