// RWKV-7's recurrence in chunks by tiles, in every layout that tiles have, against the recurrence token by
// token. A layout decides which lanes of waves of 32 or 64 hold what, so it must not show in a single bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "gpu/device/memory.h"
#include "gpu/recurrence/wkv7_tiles.h"

namespace fulmar {
namespace {

constexpr int64_t kHeads = 3, kWidth = kHeads * gpu::kHeadSize;
constexpr int32_t kStart[] = {0, 37, 57, 73};  // whole chunks, and some that are not
constexpr int64_t kSequences = std::size(kStart) - 1, kRows = kStart[kSequences];
constexpr size_t kStateNumbers = kHeads * gpu::kHeadSize * gpu::kHeadSize;

class Memory {
 public:
  template <class T>
  T* put(const std::vector<T>& numbers) {
    auto buffer = gpu::allocate_device(numbers.size() * sizeof(T));
    if (!buffer.ok()) throw std::bad_alloc();
    buffers_.push_back(std::move(buffer).value());
    auto* data = static_cast<T*>(buffers_.back().data());
    FULMAR_GPU(
        cudaMemcpyAsync(data, numbers.data(), numbers.size() * sizeof(T), cudaMemcpyHostToDevice, nullptr));
    return data;
  }
  template <class T>
  std::vector<T> get(const T* data, size_t count) const {
    std::vector<T> out(count);
    FULMAR_GPU(cudaMemcpyAsync(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost, nullptr));
    FULMAR_GPU(cudaStreamSynchronize(nullptr));
    return out;
  }

 private:
  std::vector<Buffer> buffers_;
};

struct Outcome {
  std::vector<float> y, state;
};

class TileWalk : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::device_facts(0).ok()) GTEST_SKIP() << "no usable GPU on this machine";
    FULMAR_GPU(cudaSetDevice(0));
    p_ = {rows(-1, 1), rows(-1, 1), rows(-1, 1), {}, rows(-4, 4), unit_rows(), rows(0, 1)};
    state_ = numbers(kSequences * kStateNumbers, -1, 1);
    std::vector<int32_t> row, count, begin{0}, slot;
    for (int64_t s = 0; s < kSequences; s++) {
      for (int32_t at = kStart[s]; at < kStart[s + 1]; at += gpu::kChunk) {
        row.push_back(at);
        count.push_back(std::min(gpu::kChunk, kStart[s + 1] - at));
      }
      begin.push_back(static_cast<int32_t>(row.size()));
      slot.push_back(static_cast<int32_t>(kSequences - 1 - s));
    }
    chunks_ = {static_cast<int64_t>(row.size()), memory_.put(row), memory_.put(count), memory_.put(begin)};
    batch_.rows = batch_.longest = kRows;
    batch_.sequences = kSequences;
    batch_.start = memory_.put(std::vector<int32_t>(std::begin(kStart), std::end(kStart)));
    batch_.slot = memory_.put(slot);
  }

  std::vector<float> numbers(size_t count, float low, float high) {
    std::uniform_real_distribution<float> number(low, high);
    std::vector<float> out(count);
    for (float& x : out) x = number(random_);
    return out;
  }
  Tensor tensor_of(const std::vector<float>& from) {
    std::vector<gpu::Half> halves;
    for (const float x : from) halves.push_back(__float2half_rn(x));
    return {memory_.put(halves), DType::f16, kRows, kWidth, kWidth};
  }
  Tensor rows(float low, float high) { return tensor_of(numbers(kRows * kWidth, low, high)); }
  Tensor unit_rows() {  // heads of length 1
    std::vector<float> out = numbers(kRows * kWidth, -1, 1);
    for (size_t head = 0; head < out.size(); head += gpu::kHeadSize) {
      float squares = 0;
      for (size_t i = 0; i < gpu::kHeadSize; i++) squares += out[head + i] * out[head + i];
      for (size_t i = 0; i < gpu::kHeadSize; i++) out[head + i] /= std::sqrt(squares);
    }
    return tensor_of(out);
  }

  template <class F>
  Outcome outcome(F&& recur) {
    float* state = memory_.put(state_);
    const StateField field{
        reinterpret_cast<std::byte*>(state), kStateNumbers * sizeof(float), DType::f32, {}};
    const Tensor y = rows(0, 0);
    recur(field, y);
    Outcome out{{}, memory_.get(state, state_.size())};
    for (const gpu::Half x : memory_.get(y.as<gpu::Half>(), kRows * kWidth)) out.y.push_back(__half2float(x));
    return out;
  }
  template <class Layout>
  Outcome by_tiles() {
    using Chunk = gpu::TiledChunk7<Layout>;
    auto* data = reinterpret_cast<Chunk*>(
        memory_.put(std::vector<std::byte>(static_cast<size_t>(chunks_.count * kHeads) * sizeof(Chunk))));
    return outcome([&](const StateField& state, Tensor y) {
      gpu::prepare_chunks7(gpu::Queue{}, chunks_, kHeads, p_, {}, data);
      gpu::walk_tiles<Layout, 2>(gpu::Queue{}, batch_, {chunks_, kHeads, state, y, data, 1});
    });
  }
  Outcome by_tokens() {
    TimeMix7 att;
    att.n_head = kHeads;
    att.head_size = gpu::kHeadSize;
    return outcome([&](const StateField& state, Tensor y) {
      gpu::wkv7(gpu::Queue{}, batch_, att, p_, {state, y, 1});
    });
  }

  std::mt19937 random_{1};
  Memory memory_;
  Projected7 p_;
  std::vector<float> state_;
  gpu::Chunks chunks_;
  Batch batch_;
};

double error(const std::vector<float>& got, const std::vector<float>& want) {
  double wrong = 0, size = 0;
  for (size_t i = 0; i < want.size(); i++) {
    wrong += std::pow(static_cast<double>(got[i]) - want[i], 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(wrong / size);
}

TEST_F(TileWalk, GivesWhatTheRecurrenceTokenByTokenGives) {
  const Outcome want = by_tokens(), got = by_tiles<gpu::TargetLayout>();
  EXPECT_LT(error(got.y, want.y), 2e-3);
  EXPECT_LT(error(got.state, want.state), 2e-3);
}

TEST_F(TileWalk, LayoutsDoNotShow) {
  const Outcome want = by_tiles<gpu::MfmaLayout>(), wmma = by_tiles<gpu::WmmaLayout>(),
                dots = by_tiles<gpu::DotLayout>();
  EXPECT_EQ(wmma.y, want.y);
  EXPECT_EQ(wmma.state, want.state);
  EXPECT_EQ(dots.y, want.y);
  EXPECT_EQ(dots.state, want.state);
}

}  // namespace
}  // namespace fulmar
