// Measures what this GPU reaches at best: reading, copying, and a large product of the GEMM library.
#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "gpu/ceilings.h"
#include "gpu/device/element.h"
#include "gpu/device/memory.h"
#include "gpu/device/ptx.h"
#include "gpu/gemm/sm90/fp8_inputs.h"

namespace fulmar::gpu {

namespace {

constexpr size_t kMostBufferBytes = size_t{2} << 30;  // of each buffer: many times the last cache
constexpr int64_t kProductSize = 8192;
constexpr int kRounds = 25;
// The driver clears memory that was freed (scrubbing) in the background, at some 550 GB/s: reading is 13 %
// slower until that is over, for 100 GB a fifth of a second.
constexpr double kScrubSeconds = 0.6;
constexpr int kCeilingThreads = 512;

// Fills a buffer with numbers without a pattern whose products stay finite: zeros would be quicker.
__global__ void fill_kernel(uint2* to, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u ^ static_cast<uint32_t>(i >> 9) * 40503u;
    to[i] = {(mixed & 0x83ff83ffu) | 0x20002000u, (mixed * 2246822519u & 0x83ff83ffu) | 0x24002400u};
  }
}

// Reads a buffer, several loads in flight per thread; the sum is stored only for one value of many.
__global__ void __launch_bounds__(kCeilingThreads)
    read_kernel(const uint4* from, int64_t count, uint32_t* kept) {
  constexpr int kAhead = 8;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kCeilingThreads;
  uint32_t sum = 0;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kCeilingThreads + threadIdx.x;
  for (; i + (kAhead - 1) * step < count; i += kAhead * step) {
    uint4 v[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) v[ahead] = __ldcs(from + i + ahead * step);
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) sum += v[ahead].x ^ v[ahead].y ^ v[ahead].z ^ v[ahead].w;
  }
  if (sum == 0x9e3779b9u) *kept = sum;
}

__global__ void __launch_bounds__(kCeilingThreads) copy_kernel(const uint4* from, uint4* to, int64_t count) {
  constexpr int kAhead = 8;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kCeilingThreads;
  int64_t i = static_cast<int64_t>(blockIdx.x) * kCeilingThreads + threadIdx.x;
  for (; i + (kAhead - 1) * step < count; i += kAhead * step) {
    uint4 v[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) v[ahead] = __ldcs(from + i + ahead * step);
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ahead++) __stcs(to + i + ahead * step, v[ahead]);
  }
}

// Returns the seconds of the quickest of several rounds, since any disturbance only slows one down. Rounds go
// on for `least_time` seconds by the clock.
double least_seconds(const Queue& queue, const std::function<void()>& run, double least_time = 0) {
  using Clock = std::chrono::steady_clock;
  const auto end_of_rounds = Clock::now() + std::chrono::duration<double>(least_time);
  cudaEvent_t begin, end;
  FULMAR_GPU(cudaEventCreate(&begin));
  FULMAR_GPU(cudaEventCreate(&end));
  float least = 0;
  for (int round = 0; round <= kRounds || Clock::now() < end_of_rounds; round++) {
    FULMAR_GPU(cudaEventRecord(begin, queue.stream));
    run();
    FULMAR_GPU(cudaEventRecord(end, queue.stream));
    FULMAR_GPU(cudaEventSynchronize(end));
    float elapsed = 0;
    FULMAR_GPU(cudaEventElapsedTime(&elapsed, begin, end));
    if (round == 1 || (round > 1 && elapsed < least)) least = elapsed;  // the first one warms up
  }
  FULMAR_GPU(cudaEventDestroy(begin));
  FULMAR_GPU(cudaEventDestroy(end));
  return least / 1e3;
}

// Returns the seconds of a product of two matrices [size, size] of E4M3, quantised from f16 ones; `room`: 2 x
// size x size bytes for the codes and two rows of scales. Nothing where the library has no such product.
std::optional<double> float8_seconds(const Queue& queue, VendorGemm& gemm, const Tensor& in,
                                     const Tensor& matrix, const Tensor& out, std::byte* room) {
  const int64_t size = in.cols;
  auto* const scales = reinterpret_cast<float*>(room + 2 * size * size);
  const Tensor codes{room, DType::f8_e4m3, size, size, size},
      weight_codes{room + size * size, DType::f8_e4m3, size, size, size};
  if constexpr (kHopperCode) {
    const Float8Input both[] = {{in, codes, scales}, {matrix, weight_codes, scales + size}};
    quantise_inputs(queue, both);
  }
  Weight weight{DType::f8_e4m3, size, size, weight_codes.data};
  weight.scales = scales + size;
  weight.group = size;
  weight.layout = WeightLayout::float8_rows;
  if (!gemm.run_float8(queue, codes, scales, weight, out)) return std::nullopt;
  return least_seconds(queue, [&] { gemm.run_float8(queue, codes, scales, weight, out); });
}

}  // namespace

Result<Ceilings> measure_ceilings(const Queue& queue, VendorGemm& gemm, int multiprocessors,
                                  size_t free_memory, bool float8) {
  const size_t bytes = std::min(kMostBufferBytes, free_memory / 4) / 4096 * 4096;
  FULMAR_ASSIGN(const Buffer from, allocate_device(bytes));
  FULMAR_ASSIGN(const Buffer to, allocate_device(bytes));
  Queue plain = queue;
  plain.overlap = false;
  const auto blocks = dim3(static_cast<unsigned>(multiprocessors * 4));
  const auto pieces = static_cast<int64_t>(bytes / sizeof(uint4));
  launch(plain, fill_kernel, blocks, dim3(kCeilingThreads), 0, static_cast<uint2*>(from.data()), 2 * pieces);

  Ceilings found;
  const auto* source = static_cast<const uint4*>(from.data());
  const double reading = least_seconds(
      plain,
      [&] {
        launch(plain, read_kernel, blocks, dim3(kCeilingThreads), 0, source, pieces,
               static_cast<uint32_t*>(to.data()));
      },
      kScrubSeconds);
  const double copying = least_seconds(plain, [&] {
    launch(plain, copy_kernel, blocks, dim3(kCeilingThreads), 0, source, static_cast<uint4*>(to.data()),
           pieces);
  });
  const double library = least_seconds(plain, [&] {
    FULMAR_GPU(cudaMemcpyAsync(to.data(), source, bytes, cudaMemcpyDeviceToDevice, plain.stream));
  });
  found.read_gbs = static_cast<double>(bytes) / reading / 1e9;
  found.copy_gbs = 2 * static_cast<double>(bytes) / std::min(copying, library) / 1e9;

  // Operands from what the copy has written, the result over the first buffer.
  int64_t size = kProductSize;
  while (static_cast<size_t>(4 * size * size) * sizeof(Half) > bytes) size /= 2;
  const auto at = [&](int64_t row) { return static_cast<Half*>(to.data()) + row * size; };
  const Tensor in{at(0), DType::f16, size, size, size}, out{from.data(), DType::f16, size, size, size};
  const Weight weight{DType::f16, size, size, at(size)};
  std::optional<double> multiplying;
  if (float8) {
    multiplying = float8_seconds(plain, gemm, in, {at(size), DType::f16, size, size, size}, out,
                                 reinterpret_cast<std::byte*>(at(2 * size)));
  }
  if (!multiplying) multiplying = least_seconds(plain, [&] { gemm.run(plain, in, weight, out); });
  found.gflops = 2.0 * static_cast<double>(size * size) * static_cast<double>(size) / *multiplying / 1e9;
  return found;
}

}  // namespace fulmar::gpu
