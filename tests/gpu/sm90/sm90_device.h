// What tests of kernels for compute capability 9.0 alone need: such a GPU, or they skip.
#pragma once

#include "gpu/device/device.h"
#include "gpu/gpu_device.h"
#include "gpu/sm90/wgmma_rooms.h"

namespace fulmar {

class Sm90Test : public GpuTest {
 protected:
  // most_noted: rows beyond which racecheck takes minutes.
  void prepare(int64_t rows, int64_t most_noted) {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int major = 0;
    FULMAR_GPU(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major != 9) GTEST_SKIP() << "made for compute capability 9.0";
    if (under_racecheck() && rows > most_noted) GTEST_SKIP() << "so many rows take minutes";
  }
};

}  // namespace fulmar
