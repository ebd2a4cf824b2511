// The GPU that tests share; they skip, saying why, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "ops/device.h"

namespace fulmar {

inline Ops* shared_gpu() {
  static const auto opened = [] {
    auto result = open_gpu({});
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
