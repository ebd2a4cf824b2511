#include "gpu/gemm/library.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/device/memory.h"
#include "gpu/gemm/library/nvidia/gemm_choices.h"
#include "gpu/gemm/naive.h"

namespace fulmar::gpu {

namespace {

constexpr size_t kWorkspace = size_t{64} << 20;
constexpr int kCandidates = 8;
constexpr int kTimedRuns = 4;
constexpr size_t kMostProblems = 1024;  // descriptors that are kept

// Returns how many bytes, at most 16, an address is a multiple of.
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

#define FULMAR_GEMM_FUNCTIONS(each)                                                                         \
  each(cublasLtCreate) each(cublasLtDestroy) each(cublasLtMatmul) each(cublasLtMatmulDescCreate)            \
      each(cublasLtMatmulDescDestroy) each(cublasLtMatmulDescSetAttribute) each(cublasLtMatrixLayoutCreate) \
          each(cublasLtMatrixLayoutDestroy) each(cublasLtMatmulPreferenceCreate)                            \
              each(cublasLtMatmulPreferenceDestroy) each(cublasLtMatmulPreferenceSetAttribute)              \
                  each(cublasLtMatmulAlgoGetHeuristic) each(cublasLtMatmulAlgoCheck)                        \
                      each(cublasLtGetVersion)

struct Functions {
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
      return Error{ErrorKind::unsupported, "cuBLASLt was not found as " + tried};
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
  Functions() = default;
  Functions& operator=(Functions&& other) noexcept {
    std::swap(handle, other.handle);
#define FULMAR_TAKE(function) function = other.function;
    FULMAR_GEMM_FUNCTIONS(FULMAR_TAKE)
#undef FULMAR_TAKE
    return *this;
  }
  ~Functions() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }
};

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f8_e4m3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_16F;
  }
}

// A product's operands on the device.
struct GemmOperands {
  const void *in, *weight;
  void* out;
  const float *in_scales = nullptr, *weight_scales = nullptr;  // of E4M3: one a row
};

// A product as the library sees it, column-major: a row-major matrix is its transpose, out^T = weight * in^T.
class Problem {
 public:
  Problem(const Functions& library, Tensor input, const Weight& matrix, Tensor output) : library_(library) {
    const cublasOperation_t transpose = CUBLAS_OP_T;
    must(library.cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
         "cublasLtMatmulDescCreate");
    if (!matrix.by_input()) set(CUBLASLT_MATMUL_DESC_TRANSA, transpose);
    if (input.dtype == DType::f8_e4m3) scale_by_rows();
    const int64_t weight_rows = matrix.by_input() ? matrix.out : matrix.in;
    lay_out(weight_, input.dtype, weight_rows, matrix.by_input() ? matrix.in : matrix.out, weight_rows);
    lay_out(in_, input.dtype, matrix.in, input.rows, input.stride);
    lay_out(out_, output.dtype, matrix.out, input.rows, output.stride);
  }
  ~Problem() {
    for (cublasLtMatrixLayout_t layout : {weight_, in_, out_}) library_.cublasLtMatrixLayoutDestroy(layout);
    library_.cublasLtMatmulDescDestroy(product_);
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  // Sets the scales' addresses; must precede candidates() and runs: the library's choice depends on them.
  void point_to_scales(const GemmOperands& operands) const {
    if (operands.in_scales == nullptr) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.weight_scales);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.in_scales);
  }

  // Returns the algorithms that the library would try, in its own order.
  std::vector<cublasLtMatmulAlgo_t> candidates(int64_t alignment) const {
    cublasLtMatmulPreference_t preference = nullptr;
    must(library_.cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      must(library_.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
           "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    // Partial sums are added in f32: 16-bit ones would show in the logits.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(attribute, static_cast<uint32_t>(alignment));
    }
    cublasLtMatmulHeuristicResult_t found[kCandidates];
    int count = 0;
    const cublasStatus_t status = library_.cublasLtMatmulAlgoGetHeuristic(
        library_.handle, product_, weight_, in_, out_, out_, preference, kCandidates, found, &count);
    library_.cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
    must(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulAlgo_t> list;
    for (int i = 0; i < count; i++) list.push_back(found[i].algo);
    return list;
  }

  // Returns whether the library accepts this algorithm, of another problem or an earlier start, for this one.
  bool takes(const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result{};
    return library_.cublasLtMatmulAlgoCheck(library_.handle, product_, weight_, in_, out_, out_, &algorithm,
                                            &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspace;
  }

  cublasStatus_t run(cudaStream_t stream, const GemmOperands& operands, const cublasLtMatmulAlgo_t& with,
                     void* workspace) const {
    const float one = 1, zero = 0;
    point_to_scales(operands);
    return library_.cublasLtMatmul(library_.handle, product_, &one, operands.weight, weight_, operands.in,
                                   in_, &zero, operands.out, out_, operands.out, out_, &with, workspace,
                                   kWorkspace, stream);
  }

 private:
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, const V& value) const {
    must(library_.cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof(value)),
         "cublasLtMatmulDescSetAttribute");
  }
  // Sets an f32 scale for each row of both operands (outer-vector scaling).
  void scale_by_rows() {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
  }
  void lay_out(cublasLtMatrixLayout_t& to, DType dtype, int64_t rows, int64_t cols, int64_t stride) {
    must(library_.cublasLtMatrixLayoutCreate(&to, type_of(dtype), static_cast<uint64_t>(rows),
                                             static_cast<uint64_t>(cols), stride),
         "cublasLtMatrixLayoutCreate");
  }

  const Functions& library_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr, in_ = nullptr, out_ = nullptr;
};

struct Events {
  cudaEvent_t begin = nullptr, end = nullptr;
  Events() {
    FULMAR_GPU(cudaEventCreate(&begin));
    FULMAR_GPU(cudaEventCreate(&end));
  }
  ~Events() {
    ignore_failure(cudaEventDestroy(begin));
    ignore_failure(cudaEventDestroy(end));
  }
};

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmAlgorithm));

// A product and its algorithm; none: launch_naive.
struct Chosen {
  Problem problem;
  std::optional<cublasLtMatmulAlgo_t> algorithm;
};

}  // namespace

struct VendorGemm::Library {
  explicit Library(const std::filesystem::path& file, std::string identity)
      : choices(file, std::move(identity)) {}

  // Enqueues the product. Returns false, and launches nothing, where the library has no such product.
  bool run(const Queue&, Tensor in, const Weight&, Tensor out, const GemmOperands&);
  // Returns the product's algorithm; the first product of a kind has candidates timed.
  const Chosen& chosen_for(const Queue&, Tensor in, const Weight&, Tensor out, const GemmOperands&);
  const Chosen& choose(const Queue&, const GemmKey& exact, Tensor in, const Weight&, Tensor out,
                       const GemmOperands&);
  size_t quickest(const Queue&, const Problem&, const std::vector<cublasLtMatmulAlgo_t>&,
                  const GemmOperands&);

  Functions functions;
  Buffer workspace[kQueues];  // products of different queues run at the same time
  GemmChoices choices;
  std::map<GemmKey, std::unique_ptr<Chosen>> chosen;  // by exact rows
};

VendorGemm::VendorGemm() = default;
VendorGemm::~VendorGemm() = default;

Result<std::unique_ptr<VendorGemm>> VendorGemm::open(const DeviceFacts& facts,
                                                     const VendorGemmOptions& options) {
  std::unique_ptr<VendorGemm> gemm(new VendorGemm);
  if (options.plain) return gemm;
  Functions functions;
  FULMAR_TRY(functions.open());
  int driver = 0;
  FULMAR_GPU_TRY(cudaDriverGetVersion(&driver));
  gemm->library_ = std::make_unique<Library>(
      options.choices, facts.name + ", " + std::to_string(facts.multiprocessors) +
                           " multiprocessors, driver " + std::to_string(driver) + ", cuBLASLt " +
                           std::to_string(functions.cublasLtGetVersion()));
  gemm->library_->functions = std::move(functions);
  for (Buffer& workspace : gemm->library_->workspace) {
    FULMAR_ASSIGN(workspace, allocate_device(kWorkspace));
  }
  return gemm;
}

// Returns the quickest of the candidates, timed alone and from a cold cache, as in a step
// that reads other weights first: otherwise the cache would decide for small matrices.
size_t VendorGemm::Library::quickest(const Queue& queue, const Problem& problem,
                                     const std::vector<cublasLtMatmulAlgo_t>& candidates,
                                     const GemmOperands& operands) {
  const Events events;
  FULMAR_GPU(cudaDeviceSynchronize());
  const Buffer& evicting = workspace[(queue.index + 1) % kQueues];
  size_t best = 0;
  float least = 0;
  for (size_t i = 0; i < candidates.size(); i++) {
    const auto run = [&] {
      return problem.run(queue.stream, operands, candidates[i], workspace[queue.index].data());
    };
    if (run() != CUBLAS_STATUS_SUCCESS) continue;
    float taken = 0;
    for (int j = 0; j < kTimedRuns; j++) {
      FULMAR_GPU(cudaMemsetAsync(evicting.data(), 0, evicting.bytes(), queue.stream));
      FULMAR_GPU(cudaEventRecord(events.begin, queue.stream));
      run();
      FULMAR_GPU(cudaEventRecord(events.end, queue.stream));
      FULMAR_GPU(cudaEventSynchronize(events.end));
      float elapsed = 0;
      FULMAR_GPU(cudaEventElapsedTime(&elapsed, events.begin, events.end));
      taken = j == 0 ? elapsed : std::min(taken, elapsed);
    }
    // The library's order stands unless another candidate is clearly quicker.
    if (least == 0 || taken < 0.97f * least) {
      least = taken;
      best = i;
    }
  }
  return best;
}

const Chosen& VendorGemm::Library::choose(const Queue& queue, const GemmKey& exact, Tensor in,
                                          const Weight& weight, Tensor out, const GemmOperands& operands) {
  if (chosen.size() >= kMostProblems) chosen.clear();
  std::unique_ptr<Chosen>& made = chosen[exact];
  made.reset(new Chosen{{functions, in, weight, out}, std::nullopt});
  made->problem.point_to_scales(operands);
  GemmKey bucket = exact;
  bucket.rows = bucket_rows(exact.rows);
  if (const auto known = choices.find(bucket)) {
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(*known);
    if (made->problem.takes(algorithm)) {
      made->algorithm = algorithm;
      return *made;
    }
  }
  const std::vector<cublasLtMatmulAlgo_t> candidates = made->problem.candidates(exact.alignment);
  if (candidates.empty()) return *made;
  const size_t best = candidates.size() > 1 ? quickest(queue, made->problem, candidates, operands) : 0;
  made->algorithm = candidates[best];
  choices.keep(bucket, std::bit_cast<GemmAlgorithm>(candidates[best]));
  return *made;
}

std::vector<int64_t> VendorGemm::buckets(int64_t most) const {
  return library_ == nullptr ? std::vector<int64_t>{} : row_buckets(most);
}

const Chosen& VendorGemm::Library::chosen_for(const Queue& queue, Tensor in, const Weight& weight, Tensor out,
                                              const GemmOperands& operands) {
  const GemmKey key{in.rows,
                    weight.in,
                    weight.out,
                    in.stride,
                    out.stride,
                    weight.by_input(),
                    in.dtype == DType::bf16 || out.dtype == DType::bf16,
                    out.dtype == DType::f32,
                    std::min({alignment_of(in.data), alignment_of(weight.data), alignment_of(out.data)}),
                    in.dtype == DType::f8_e4m3};
  const auto known = chosen.find(key);
  return known != chosen.end() ? *known->second : choose(queue, key, in, weight, out, operands);
}

bool VendorGemm::Library::run(const Queue& queue, Tensor in, const Weight& weight, Tensor out,
                              const GemmOperands& operands) {
  const Chosen& by = chosen_for(queue, in, weight, out, operands);
  if (!by.algorithm) return false;
  must(by.problem.run(queue.stream, operands, *by.algorithm, workspace[queue.index].data()),
       "cublasLtMatmul");
  return true;
}

void VendorGemm::run(const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  const GemmOperands operands{in.data, weight.data, out.data};
  if (library_ != nullptr && library_->run(queue, in, weight, out, operands)) return;
  launch_naive(queue, in, weight, out);
}

bool VendorGemm::run_float8(const Queue& queue, Tensor in, const float* scales, const Weight& weight,
                            Tensor out) {
  const GemmOperands operands{in.data, weight.data, out.data, scales, weight.scales};
  return library_ != nullptr && library_->run(queue, in, weight, out, operands);
}

}  // namespace fulmar::gpu
