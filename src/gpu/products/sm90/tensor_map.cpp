#include "gpu/products/sm90/tensor_map.h"

#include <dlfcn.h>

#include "base/check.h"

namespace fulmar::gpu {

namespace {

using Encode = decltype(&::cuTensorMapEncodeTiled);

// From the driver itself, so that the program starts where there is none.
Encode find_encode() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  FULMAR_CHECK(driver != nullptr, "the driver of a GPU in use cannot be opened");
  auto* encode = reinterpret_cast<Encode>(dlsym(driver, "cuTensorMapEncodeTiled"));
  FULMAR_CHECK(encode != nullptr, "the driver lacks cuTensorMapEncodeTiled");
  return encode;
}

}  // namespace

CUtensorMap tensor_map(const Tensor& matrix, int rows) {
  static const Encode encode = find_encode();
  constexpr cuuint32_t kBoxColumns = 64;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.cols), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.stride) * size_of(matrix.dtype)};
  const cuuint32_t box[] = {kBoxColumns, static_cast<cuuint32_t>(rows)}, every[] = {1, 1};
  CUtensorMap map;
  const CUresult result = encode(
      &map, matrix.dtype == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      2, matrix.data, sizes, strides, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FULMAR_CHECK(result == CUDA_SUCCESS, "a matrix does not suit TMA");
  return map;
}

}  // namespace fulmar::gpu
