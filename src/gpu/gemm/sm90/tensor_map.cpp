#include "gpu/gemm/sm90/tensor_map.h"

#include <dlfcn.h>

#include "base/check.h"

namespace fulmar::gpu {

namespace {

using Encode = decltype(&::cuTensorMapEncodeTiled);

// Returns the function from the driver itself, so that the program starts where there is none.
Encode find_encode() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  FULMAR_CHECK(driver != nullptr, "the driver of a GPU in use cannot be opened");
  auto* encode = reinterpret_cast<Encode>(dlsym(driver, "cuTensorMapEncodeTiled"));
  FULMAR_CHECK(encode != nullptr, "the driver lacks cuTensorMapEncodeTiled");
  return encode;
}

Encode encode_map() {
  static const Encode encode = find_encode();
  return encode;
}

}  // namespace

CUtensorMap tensor_map(const Tensor& matrix, int rows) {
  constexpr cuuint32_t kBoxColumns = 64;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.stride) * size_of(matrix.dtype)};
  const cuuint32_t box[] = {kBoxColumns, static_cast<cuuint32_t>(rows)}, every[] = {1, 1};
  CUtensorMap map;
  const CUresult result = encode_map()(
      &map, matrix.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2, matrix.data, sizes, strides, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FULMAR_CHECK(result == CUDA_SUCCESS, "a matrix does not suit TMA");
  return map;
}

CUtensorMap byte_map(const void* data, const ByteBox& array, const ByteBox& box) {
  constexpr int64_t kElement = 8;
  const auto size = [](int64_t n) { return static_cast<cuuint64_t>(n); };
  const auto side = [](int64_t n) { return static_cast<cuuint32_t>(n); };
  const cuuint64_t sizes[] = {size(array.bytes / kElement), size(array.rows), size(array.planes)};
  const cuuint64_t strides[] = {size(array.bytes), size(array.bytes * array.rows)};
  const cuuint32_t sides[] = {side(box.bytes / kElement), side(box.rows), side(box.planes)},
                   every[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode_map()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT64, 3, const_cast<void*>(data), sizes, strides, sides,
                   every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FULMAR_CHECK(result == CUDA_SUCCESS, "packed codes do not suit TMA");
  return map;
}

}  // namespace fulmar::gpu
