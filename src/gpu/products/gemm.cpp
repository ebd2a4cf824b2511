#include "gpu/products/gemm.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "gpu/products/plain.h"

namespace fulmar::gpu {

namespace {

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr int kCandidates = 8;
constexpr int kTimedRuns = 4;

// Bytes (at most 16) that an address is a multiple of.
uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  uint32_t alignment = 16;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

void must(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    const std::string note = std::string(call) + ", status " + std::to_string(static_cast<int>(status));
    device_failed(cudaErrorUnknown, note.c_str(), __FILE__, __LINE__);
  }
}

}  // namespace

#define FULMAR_GEMM_FUNCTIONS(each)                                                                         \
  each(cublasLtCreate) each(cublasLtDestroy) each(cublasLtMatmul) each(cublasLtMatmulDescCreate)            \
      each(cublasLtMatmulDescDestroy) each(cublasLtMatmulDescSetAttribute) each(cublasLtMatrixLayoutCreate) \
          each(cublasLtMatrixLayoutDestroy) each(cublasLtMatmulPreferenceCreate)                            \
              each(cublasLtMatmulPreferenceDestroy) each(cublasLtMatmulPreferenceSetAttribute)              \
                  each(cublasLtMatmulAlgoGetHeuristic)

struct GemmLibrary {
#define FULMAR_DECLARE(name) decltype(&::name) name = nullptr;
  FULMAR_GEMM_FUNCTIONS(FULMAR_DECLARE)
#undef FULMAR_DECLARE
  void* file = nullptr;
  cublasLtHandle_t handle = nullptr;

  Status open() {
    const std::string version = std::to_string(CUBLAS_VER_MAJOR);
    const std::string names[] = {"libcublasLt.so." + version,
                                 "/usr/local/cuda/lib64/libcublasLt.so." + version,
                                 "/opt/cuda/lib64/libcublasLt.so." + version};
    std::string tried;
    for (const std::string& name : names) {
      file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (file != nullptr) break;
      tried += (tried.empty() ? "" : ", ") + name;
    }
    if (file == nullptr) {
      return Error{ErrorKind::unsupported, "the GPU needs cuBLASLt, which was not found as " + tried};
    }
#define FULMAR_LOAD(function)                                              \
  function = reinterpret_cast<decltype(function)>(dlsym(file, #function)); \
  if (function == nullptr) return Error{ErrorKind::unsupported, "cuBLASLt lacks the function " #function};
    FULMAR_GEMM_FUNCTIONS(FULMAR_LOAD)
#undef FULMAR_LOAD
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS) {
      return Error{ErrorKind::resource, "cuBLASLt cannot be started on this GPU"};
    }
    return {};
  }
  ~GemmLibrary() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }
};

namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_16F;
  }
}

}  // namespace

// The library counts columns first, so a row-major matrix is its transpose there: out^T = weight * in^T.
struct Gemm::Chosen {
  const GemmLibrary& library;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, in = nullptr, out = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Chosen(const GemmLibrary& from, Tensor input, const Weight& matrix, Tensor output) : library(from) {
    const cublasOperation_t transpose = CUBLAS_OP_T;
    must(library.cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
         "cublasLtMatmulDescCreate");
    if (!matrix.transposed) {
      must(library.cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                                  sizeof(transpose)),
           "cublasLtMatmulDescSetAttribute");
    }
    const auto layout = [&](cublasLtMatrixLayout_t& to, DType dtype, int64_t rows, int64_t cols,
                            int64_t stride) {
      must(library.cublasLtMatrixLayoutCreate(&to, type_of(dtype), static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(cols), stride),
           "cublasLtMatrixLayoutCreate");
    };
    if (matrix.transposed) {
      layout(weight, input.dtype, matrix.out, matrix.in, matrix.out);
    } else {
      layout(weight, input.dtype, matrix.in, matrix.out, matrix.in);
    }
    layout(in, input.dtype, matrix.in, input.rows, input.stride);
    layout(out, output.dtype, matrix.out, input.rows, output.stride);
  }
  ~Chosen() {
    library.cublasLtMatrixLayoutDestroy(weight);
    library.cublasLtMatrixLayoutDestroy(in);
    library.cublasLtMatrixLayoutDestroy(out);
    library.cublasLtMatmulDescDestroy(product);
  }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

  cublasStatus_t run(cudaStream_t stream, const void* from, const void* matrix, void* to,
                     const cublasLtMatmulAlgo_t& with, void* workspace) const {
    const float one = 1, zero = 0;
    return library.cublasLtMatmul(library.handle, product, &one, matrix, weight, from, in, &zero, to, out, to,
                                  out, &with, workspace, kWorkspace, stream);
  }
};

Gemm::Gemm() = default;
Gemm::~Gemm() = default;

Result<std::unique_ptr<Gemm>> Gemm::open(bool plain) {
  std::unique_ptr<Gemm> gemm(new Gemm);
  if (plain) return gemm;
  gemm->library_ = std::make_unique<GemmLibrary>();
  FULMAR_TRY(gemm->library_->open());
  for (Buffer& workspace : gemm->workspace_) {
    FULMAR_ASSIGN(workspace, allocate_device(kWorkspace));
  }
  return gemm;
}

Gemm::Chosen& Gemm::choose(const Queue& queue, const Key& key, Tensor in, const Weight& weight, Tensor out,
                           bool timed) {
  const GemmLibrary& library = *library_;
  auto made = std::make_unique<Chosen>(library, in, weight, out);
  cublasLtMatmulPreference_t preference = nullptr;
  must(library.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    must(library.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
         "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  // Parts of a sum are added in f32: 16-bit ones would show in the logits.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(weight.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(in.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(out.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(out.data));
  cublasLtMatmulHeuristicResult_t candidates[kCandidates];
  int found = 0;
  must(library.cublasLtMatmulAlgoGetHeuristic(library.handle, made->product, made->weight, made->in,
                                              made->out, made->out, preference, timed ? kCandidates : 1,
                                              candidates, &found),
       "cublasLtMatmulAlgoGetHeuristic");
  library.cublasLtMatmulPreferenceDestroy(preference);
  FULMAR_CHECK(found > 0, "cuBLASLt knows no way to compute this product");

  int best = 0;
  if (timed && found > 1) {
    cudaEvent_t begin, end;
    FULMAR_GPU(cudaEventCreate(&begin));
    FULMAR_GPU(cudaEventCreate(&end));
    // Alone and from a cold cache, as in a step, where other weights have passed since: small matrices would
    // otherwise be judged by how quickly they come from the cache.
    FULMAR_GPU(cudaDeviceSynchronize());
    const Buffer& evicting = workspace_[(queue.index + 1) % kQueues];
    float least = 0;
    for (int i = 0; i < found; i++) {
      const auto run = [&] {
        return made->run(queue.stream, in.data, weight.data, out.data, candidates[i].algo,
                         workspace_[queue.index].data());
      };
      if (run() != CUBLAS_STATUS_SUCCESS) continue;
      float taken = 0;
      for (int j = 0; j < kTimedRuns; j++) {
        FULMAR_GPU(cudaMemsetAsync(evicting.data(), 0, evicting.bytes(), queue.stream));
        FULMAR_GPU(cudaEventRecord(begin, queue.stream));
        run();
        FULMAR_GPU(cudaEventRecord(end, queue.stream));
        FULMAR_GPU(cudaEventSynchronize(end));
        float elapsed = 0;
        FULMAR_GPU(cudaEventElapsedTime(&elapsed, begin, end));
        taken = j == 0 ? elapsed : std::min(taken, elapsed);
      }
      // The library's order stands unless another is clearly quicker.
      if (least == 0 || taken < 0.97f * least) {
        least = taken;
        best = i;
      }
    }
    FULMAR_GPU(cudaEventDestroy(begin));
    FULMAR_GPU(cudaEventDestroy(end));
  }
  made->algorithm = candidates[best].algo;
  return *(chosen_[key] = std::move(made));
}

void Gemm::run(const Queue& queue, Tensor in, const Weight& weight, Tensor out, bool timed) {
  if (library_ == nullptr) return linear_plain(queue, in, weight, out);
  const Key key{in.rows,
                weight.in,
                weight.out,
                in.stride,
                out.stride,
                weight.transposed,
                out.dtype == DType::f32,
                static_cast<uint8_t>(
                    std::min({alignment_of(in.data), alignment_of(weight.data), alignment_of(out.data)}))};
  const auto known = chosen_.find(key);
  const Chosen& chosen = known != chosen_.end() ? *known->second : choose(queue, key, in, weight, out, timed);
  must(chosen.run(queue.stream, in.data, weight.data, out.data, chosen.algorithm,
                  workspace_[queue.index].data()),
       "cublasLtMatmul");
}

}  // namespace fulmar::gpu
