// rocBLAS (ROCm 5 and later).
#include <utility>

#include "gpu/gemm/library/amd/library_file.h"

namespace fulmar::gpu {

namespace {

constexpr const char* kRocblas = "rocBLAS";
constexpr int kStandardAlgorithm = 0;

class Rocblas final : public GemmLibrary {
 public:
  explicit Rocblas(SharedLibrary file) : file_(std::move(file)) {}
  ~Rocblas() override {
    if (handle_ != nullptr) destroy_(handle_);
  }

  Status start() {
    if (!file_.load("rocblas_create_handle", create_)) return lacks(kRocblas, "rocblas_create_handle");
    if (!file_.load("rocblas_destroy_handle", destroy_)) return lacks(kRocblas, "rocblas_destroy_handle");
    if (!file_.load("rocblas_set_stream", set_stream_)) return lacks(kRocblas, "rocblas_set_stream");
    if (!file_.load("rocblas_gemm_ex", gemm_)) return lacks(kRocblas, "rocblas_gemm_ex");
    const int status = create_(&handle_);
    if (status == kLibrarySuccess) return {};
    handle_ = nullptr;
    return failed("rocblas_create_handle", status);
  }

  // Enqueues a product. The library is column-major, so a row-major matrix is its transpose: out^T = weight *
  // in^T. It chooses its kernel by itself, and has memory of its own.
  Result<bool> run(void* stream, const LibraryProduct& product, const LibraryWorkspace&) override {
    const auto count = [](int64_t n) { return static_cast<int>(n); };
    const float one = 1, zero = 0;
    const Type type = type_of(product.type), out_type = type_of(product.out_type);
    if (const int status = set_stream_(handle_, stream); status != kLibrarySuccess)
      return failed("rocblas_set_stream", status);
    const int status =
        gemm_(handle_, product.transposed ? kAsIs : kTransposed, kAsIs, count(product.outs),
              count(product.rows), count(product.inner), &one, product.weight, type,
              count(product.transposed ? product.outs : product.inner), product.in, type,
              count(product.in_stride), &zero, product.out, out_type, count(product.out_stride), product.out,
              out_type, count(product.out_stride), kFloat, kStandardAlgorithm, 0, 0);
    if (status != kLibrarySuccess) return failed("rocblas_gemm_ex", status);
    return true;
  }

 private:
  using Handle = struct RocblasHandle*;
  enum Operation : int { kAsIs = 111, kTransposed = 112 };
  enum Type : int { kHalf = 150, kFloat = 151, kBFloat = 168 };

  static Type type_of(DType dtype) {
    if (dtype == DType::f32) return kFloat;
    return dtype == DType::bf16 ? kBFloat : kHalf;
  }

  SharedLibrary file_;
  Handle handle_ = nullptr;
  int (*create_)(Handle*) = nullptr;
  int (*destroy_)(Handle) = nullptr;
  int (*set_stream_)(Handle, void* stream) = nullptr;
  int (*gemm_)(Handle, Operation, Operation, int m, int n, int k, const void* alpha, const void* a, Type,
               int lda, const void* b, Type, int ldb, const void* beta, const void* c, Type, int ldc, void* d,
               Type, int ldd, Type compute, int algorithm, int32_t solution, uint32_t flags) = nullptr;
};

}  // namespace

Result<std::unique_ptr<GemmLibrary>> open_rocblas(LibraryFiles files) {
  FULMAR_ASSIGN(SharedLibrary file, open_first(files, kRocblas));
  auto library = std::make_unique<Rocblas>(std::move(file));
  FULMAR_TRY(library->start());
  return std::unique_ptr<GemmLibrary>(std::move(library));
}

}  // namespace fulmar::gpu
