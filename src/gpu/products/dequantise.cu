// Decoders of weight formats: a thread takes four neighbouring weights of a row.
#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/ptx.h"
#include "gpu/products/dequantise.h"

namespace fulmar::gpu {

namespace {

constexpr int kDecodeThreads = 256, kDecoded = 4;  // weights of a thread

// 32 weights: a scale in f16, then as many bytes.
struct DecodeQ8 {
  static constexpr int64_t kBlock = 32, kBlockBytes = 34;
  const uint8_t* data;
  __device__ Float4 operator()(int64_t row, int64_t at, int64_t in) const {
    const uint8_t* block = data + (row * in + at) / kBlock * kBlockBytes;
    const auto scale_bits = static_cast<unsigned short>(block[0] | block[1] << 8);
    const float scale = __half2float(__ushort_as_half(scale_bits));
    const auto* codes = reinterpret_cast<const int8_t*>(block + sizeof(uint16_t)) + at % kBlock;
    Float4 out;
#pragma unroll
    for (int i = 0; i < kDecoded; i++) out.x[i] = scale * static_cast<float>(codes[i]);
    return out;
  }
};

// A byte for each weight, f32 scales beside them for groups of a row.
struct DecodeInt8 {
  const int8_t* data;
  const float* scales;
  int64_t group;
  __device__ Float4 operator()(int64_t row, int64_t at, int64_t in) const {
    const int8_t* codes = data + row * in + at;
    Float4 out;
#pragma unroll
    for (int i = 0; i < kDecoded; i++) {
      out.x[i] = scales[row * (in / group) + (at + i) / group] * static_cast<float>(codes[i]);
    }
    return out;
  }
};

template <class T, class Decode>
__global__ void __launch_bounds__(kDecodeThreads)
    dequantise_kernel(const Decode decode, int64_t first, int64_t rows, int64_t in, T* target) {
  pdl_launch_next();
  pdl_wait();  // the products in front may still read what is decoded into
  const int64_t item = (static_cast<int64_t>(blockIdx.x) * kDecodeThreads + threadIdx.x) * kDecoded;
  if (item >= rows * in) return;
  store4(target + item, decode(first + item / in, item % in, in));
}

template <class Decode>
void launch_decoder(const Queue& queue, const Decode& decode, int64_t first, int64_t rows, int64_t in,
                    void* target, DType to) {
  constexpr int64_t kEach = int64_t{kDecodeThreads} * kDecoded;
  const dim3 grid(static_cast<unsigned>((rows * in + kEach - 1) / kEach));
  with_activation(to, [&](auto sample) {
    using T = decltype(sample);
    launch(queue, dequantise_kernel<T, Decode>, grid, dim3(kDecodeThreads), 0, decode, first, rows, in,
           static_cast<T*>(target));
  });
}

}  // namespace

bool has_decoder(DType dtype) { return dtype == DType::q8_0 || dtype == DType::i8; }

void dequantise(const Queue& queue, const Weight& weight, int64_t first, int64_t rows, void* target,
                DType to) {
  FULMAR_CHECK(!weight.transposed && weight.in % kDecoded == 0 && first + rows <= weight.out);
  const auto run = [&](const auto& decode) {
    launch_decoder(queue, decode, first, rows, weight.in, target, to);
  };
  switch (weight.dtype) {
    case DType::q8_0:
      return run(DecodeQ8{static_cast<const uint8_t*>(weight.data)});
    case DType::i8:
      FULMAR_CHECK(weight.scales != nullptr && weight.group > 0 && weight.in % weight.group == 0);
      return run(DecodeInt8{static_cast<const int8_t*>(weight.data), weight.scales, weight.group});
    default:
      FULMAR_CHECK(false, "no decoder for this format; has_decoder says so");
  }
}

}  // namespace fulmar::gpu
