// Stochastic rounding of half states: always to a neighbour, never of what a half has, and without the drift
// that rounding to nearest has where a state decays slowly.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gpu/device/device.h"
#include "gpu/device/memory.h"
#include "gpu/device/state_rounding.h"
#include "gpu/gpu_device.h"

namespace fulmar {
namespace {

constexpr int kThreads = 256, kNumbers = 1 << 16;

__global__ void round_kernel(const float* from, float* to) {
  const int i = 2 * (blockIdx.x * kThreads + threadIdx.x);
  const uint32_t word = gpu::pack_state_pair(from[i], from[i + 1]);
  to[i] = gpu::to_float(__ushort_as_half(static_cast<unsigned short>(word & 0xffff)));
  to[i + 1] = gpu::to_float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
}

// Two cells through so many tokens: decays by about 1e-4 each, additions that a half near 1 cannot take up.
struct Drifted {
  float exact[2], nearest[2], stochastic[2];
};
__global__ void drift_kernel(int tokens, Drifted* out) {
  uint32_t random = (blockIdx.x * kThreads + threadIdx.x) * 2654435761u + 1;
  Drifted s{{1, -0.7f}, {1, -0.7f}, {1, -0.7f}};
  for (int t = 0; t < tokens; t++) {
    float w[2], added[2];
    for (int i = 0; i < 2; i++) {
      random = random * 1664525u + 1013904223u;
      w[i] = 1.0f - 1e-4f * (1.0f + static_cast<float>(random >> 8) * 0x1p-24f);
      added[i] = 1e-5f * static_cast<float>(random & 0xff) * 0x1p-8f;
    }
    for (int i = 0; i < 2; i++) {
      s.exact[i] = __fmaf_rn(s.exact[i], w[i], added[i]);
      s.nearest[i] = gpu::to_float(gpu::from_float<gpu::Half>(__fmaf_rn(s.nearest[i], w[i], added[i])));
      s.stochastic[i] = __fmaf_rn(s.stochastic[i], w[i], added[i]);
    }
    const uint32_t word = gpu::pack_state_pair(s.stochastic[0], s.stochastic[1]);
    s.stochastic[0] = gpu::to_float(__ushort_as_half(static_cast<unsigned short>(word & 0xffff)));
    s.stochastic[1] = gpu::to_float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
  }
  out[blockIdx.x * kThreads + threadIdx.x] = s;
}

class GpuStateRounding : public GpuTest {
 protected:
  static std::vector<float> rounded(const std::vector<float>& from) {
    const size_t bytes = from.size() * sizeof(float);
    const auto in = gpu::allocate_device(bytes), out = gpu::allocate_device(bytes);
    FULMAR_GPU(cudaMemcpy(in.value().data(), from.data(), bytes, cudaMemcpyHostToDevice));
    round_kernel<<<kNumbers / 2 / kThreads, kThreads>>>(static_cast<const float*>(in.value().data()),
                                                        static_cast<float*>(out.value().data()));
    std::vector<float> to(from.size());
    FULMAR_GPU(cudaMemcpy(to.data(), out.value().data(), bytes, cudaMemcpyDeviceToHost));
    return to;
  }
};

TEST_F(GpuStateRounding, TakesANeighbourAndIsRightOnAverage) {
  std::vector<float> from(kNumbers);
  uint32_t random = 7;
  for (float& x : from) {
    random = random * 1664525u + 1013904223u;
    x = (static_cast<float>(random >> 8) * 0x1p-23f - 1.0f) * 2.0f;
  }
  const std::vector<float> to = rounded(from);
  double sum = 0;
  for (size_t i = 0; i < from.size(); i++) {
    const double size = std::abs(static_cast<double>(from[i]));
    const double unit = std::max(std::exp2(std::floor(std::log2(size)) - 10), 0x1p-24);
    EXPECT_LT(std::abs(to[i] - from[i]), unit) << from[i];
    sum += (to[i] - from[i]) / unit * (from[i] < 0 ? -1 : 1);
  }
  EXPECT_LT(std::abs(sum / kNumbers), 0.01) << "of a unit; dropping everything would be 0.5";
  EXPECT_EQ(rounded(to), to) << "what a half has stays";
  EXPECT_EQ(rounded(from), to) << "bits again";
}

TEST_F(GpuStateRounding, LargeNumbersStayFinite) {
  std::vector<float> from(kNumbers, 0.0f);
  from[1] = 65503.9f, from[2] = 70000.0f, from[3] = -1e30f, from[4] = -0.0f;
  const std::vector<float> to = rounded(from);
  EXPECT_EQ(to[0], 0.0f);
  EXPECT_GE(to[1], 65472.0f);
  EXPECT_EQ(to[2], 65504.0f);
  EXPECT_EQ(to[3], -65504.0f);
  EXPECT_EQ(to[4], 0.0f);
}

TEST_F(GpuStateRounding, SlowDecayAndSmallAdditionsAreNotLost) {
  if (under_racecheck()) GTEST_SKIP() << "no shared memory to note";
  constexpr int kBlocks = 16, kTokens = 16384;
  const auto memory = gpu::allocate_device(sizeof(Drifted) * kBlocks * kThreads);
  drift_kernel<<<kBlocks, kThreads>>>(kTokens, static_cast<Drifted*>(memory.value().data()));
  std::vector<Drifted> all(kBlocks * kThreads);
  FULMAR_GPU(
      cudaMemcpy(all.data(), memory.value().data(), sizeof(Drifted) * all.size(), cudaMemcpyDeviceToHost));
  double exact = 0, nearest = 0, stochastic = 0, squares = 0;
  const auto count = static_cast<double>(2 * all.size());
  for (const Drifted& one : all) {
    for (int i = 0; i < 2; i++) {
      exact += one.exact[i] / count, nearest += one.nearest[i] / count,
          stochastic += one.stochastic[i] / count;
      squares += (one.stochastic[i] - one.exact[i]) * (one.stochastic[i] - one.exact[i]) / count;
    }
  }
  RecordProperty("exact", std::to_string(exact));
  RecordProperty("nearest", std::to_string(nearest));
  RecordProperty("stochastic", std::to_string(stochastic));
  EXPECT_GT(std::abs(nearest - exact), 0.05);
  EXPECT_LT(std::abs(stochastic - exact), 0.002);
  EXPECT_LT(std::sqrt(squares), 0.02);
}

}  // namespace
}  // namespace fulmar
