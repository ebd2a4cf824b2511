// The GPU that tests share; they skip, saying why, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "ops/device.h"

namespace fulmar {

// All tests open their GPUs so: FULMAR_PLAIN_PRODUCTS in the environment keeps the GEMM library out, for
// tools that cannot follow its kernels.
inline Result<std::unique_ptr<Ops>> open_test_gpu(DeviceOptions options = {}) {
  options.plain_products = std::getenv("FULMAR_PLAIN_PRODUCTS") != nullptr;
  return open_gpu(options);
}

inline Ops* shared_gpu() {
  static const auto opened = [] {
    auto result = open_test_gpu();
    if (!result.ok()) GTEST_LOG_(INFO) << result.error().text;
    return result.ok() ? std::move(result).value() : nullptr;
  }();
  return opened.get();
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (shared_gpu() == nullptr) GTEST_SKIP() << "no usable GPU on this machine";
  }
  Ops& gpu() { return *shared_gpu(); }
};

}  // namespace fulmar
