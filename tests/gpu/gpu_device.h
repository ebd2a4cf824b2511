// The GPU that tests share; they skip, saying why, where there is none.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "ops/device.h"

namespace fulmar {

// Whether a tool notes every access to shared memory: a launch then takes tens of milliseconds, so tests
// repeat less, and the tool cannot follow the GEMM library's kernels, so plain products take their place.
inline bool under_racecheck() { return std::getenv("FULMAR_RACECHECK") != nullptr; }

// Whether they run as on a GPU whose matrix units the kernels do not know: a lone row has no way of its own
// there, and rounds to 16 bits between kernels as several rows do.
inline bool without_matrix_units() { return std::getenv("FULMAR_NO_MATRIX_UNITS") != nullptr; }

// How all tests open a GPU that need not have the library. FULMAR_NO_PANELS: as GPUs without panels go;
// FULMAR_NO_MATRIX_UNITS: as GPUs go whose matrix units the kernels do not know.
inline Result<std::unique_ptr<Ops>> open_test_gpu(DeviceOptions options = {}) {
  options.plain_products = under_racecheck();
  options.panels = options.panels && std::getenv("FULMAR_NO_PANELS") == nullptr;
  options.matrix_units = options.matrix_units && !without_matrix_units();
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
