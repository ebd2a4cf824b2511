// Made-up models on GPUs that are opened for one test.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "files/synthetic.h"
#include "gpu/gpu_device.h"
#include "support/slot_script.h"

namespace fulmar {

// Fails the running test, and is null, where the GPU does not open.
inline std::unique_ptr<Ops> opened_gpu(const DeviceOptions& options) {
  auto opened = open_test_gpu(options);
  if (opened.ok()) return std::move(opened).value();
  ADD_FAILURE() << opened.error().text;
  return nullptr;
}

// Two layers of f16; `low_rank` is that of the decay and of the in-context rate, half of the gate's.
inline SyntheticSpec two_layers(int version, int64_t n_head, int64_t n_ffn, int64_t low_rank,
                                int64_t vocab = 96) {
  SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = n_head, .head_size = 64, .vocab = vocab};
  spec.n_ffn = n_ffn;
  spec.rank_w = spec.rank_a = low_rank;
  spec.rank_g = 2 * low_rank;
  spec.rank_v = spec.rank_mix = 32;
  spec.rank_decay = 64;
  spec.dtype = DType::f16;
  return spec;
}

inline support::SlotTrace play_on_gpu(const SyntheticSpec& spec, const DeviceOptions& options,
                                      const support::SlotScript& script) {
  const std::unique_ptr<Ops> ops = opened_gpu(options);
  return ops ? play(spec, *ops, script) : support::SlotTrace{};
}

}  // namespace fulmar
