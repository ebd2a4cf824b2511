// The GEMM library of AMD's cards, rocBLAS. The few functions that are needed are declared after its
// documentation, so that the program builds where its headers are absent and starts where the library is.
#include "gpu/products/gemm.h"

#include <dlfcn.h>

#include <string>

#include "base/check.h"
#include "gpu/products/plain.h"

namespace fulmar::gpu {

namespace {

using Handle = struct RocblasHandle*;
enum Operation : int { kAsIs = 111, kTransposed = 112 };
enum Type : int { kHalf = 150, kFloat = 151, kBFloat = 168 };
constexpr int kSuccess = 0, kStandardAlgorithm = 0;
constexpr const char* kNames[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.0", "librocblas.so"};

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return kFloat;
    case DType::bf16:
      return kBFloat;
    default:
      return kHalf;
  }
}

void must(int status, const char* call) {
  if (status == kSuccess) return;
  const std::string note = std::string(call) + ", status " + std::to_string(status);
  device_failed(cudaErrorUnknown, note.c_str(), __FILE__, __LINE__);
}

}  // namespace

struct Gemm::Library {
  void* file = nullptr;
  Handle handle = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*set_stream)(Handle, StreamHandle) = nullptr;
  int (*gemm)(Handle, Operation, Operation, int m, int n, int k, const void* alpha, const void* a, Type,
              int lda, const void* b, Type, int ldb, const void* beta, const void* c, Type, int ldc, void* d,
              Type, int ldd, Type compute, int algorithm, int32_t solution, uint32_t flags) = nullptr;

  Status open() {
    std::string tried;
    for (const char* name : kNames) {
      file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (file != nullptr) break;
      tried += (tried.empty() ? "" : ", ") + std::string(name);
    }
    if (file == nullptr) {
      return Error{ErrorKind::unsupported, "the GPU needs rocBLAS, which was not found as " + tried};
    }
    FULMAR_TRY(load("rocblas_create_handle", create));
    FULMAR_TRY(load("rocblas_destroy_handle", destroy));
    FULMAR_TRY(load("rocblas_set_stream", set_stream));
    FULMAR_TRY(load("rocblas_gemm_ex", gemm));
    if (create(&handle) != kSuccess) return Error{ErrorKind::unsupported, "rocBLAS cannot be started"};
    return {};
  }

  template <class Function>
  Status load(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(file, name));
    if (function != nullptr) return {};
    return Error{ErrorKind::unsupported, std::string("rocBLAS lacks the function ") + name};
  }

  ~Library() {
    if (handle != nullptr) destroy(handle);
  }
};

Gemm::Gemm() = default;
Gemm::~Gemm() = default;

Result<std::unique_ptr<Gemm>> Gemm::open(const DeviceFacts&, const GemmOptions& options) {
  std::unique_ptr<Gemm> gemm(new Gemm);
  if (options.plain) return gemm;
  gemm->library_ = std::make_unique<Library>();
  FULMAR_TRY(gemm->library_->open());
  return gemm;
}

// The library counts columns first, so a row-major matrix is its transpose there: out^T = weight * in^T. It
// chooses its kernel by itself.
std::vector<int64_t> Gemm::buckets(int64_t) const { return {}; }

void Gemm::run(const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  if (library_ == nullptr) return linear_plain(queue, in, weight, out);
  const Library& library = *library_;
  const float one = 1, zero = 0;
  const auto count = [](int64_t n) { return static_cast<int>(n); };
  const Type type = type_of(in.dtype), out_type = type_of(out.dtype);
  must(library.set_stream(library.handle, queue.stream), "rocblas_set_stream");
  must(library.gemm(library.handle, weight.transposed ? kAsIs : kTransposed, kAsIs, count(weight.out),
                    count(in.rows), count(weight.in), &one, weight.data, type,
                    count(weight.transposed ? weight.out : weight.in), in.data, type, count(in.stride), &zero,
                    out.data, out_type, count(out.stride), out.data, out_type, count(out.stride), kFloat,
                    kStandardAlgorithm, 0, 0),
       "rocblas_gemm_ex");
}

}  // namespace fulmar::gpu
