// Products by AMD's GEMM libraries: hipBLASLt where it exists and has a kernel, else rocBLAS.
#include "gpu/gemm/library.h"

#include <string>
#include <utility>

#include "gpu/device/memory.h"
#include "gpu/gemm/library/amd/gemm_library.h"
#include "gpu/gemm/naive.h"

namespace fulmar::gpu {

namespace {

constexpr const char* kHipblasltFiles[] = {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"};
constexpr const char* kRocblasFiles[] = {"librocblas.so.5", "librocblas.so.4", "librocblas.so.0",
                                         "librocblas.so"};
constexpr size_t kLibraryWorkspace = size_t{32} << 20;  // of each queue

}  // namespace

struct VendorGemm::Library {
  std::vector<std::unique_ptr<GemmLibrary>> in_order;  // of preference
  Buffer workspace[kQueues];

  Status open() {
    auto quick = open_hipblaslt(kHipblasltFiles), every = open_rocblas(kRocblasFiles);
    if (!quick.ok() && !every.ok()) {
      return Error{ErrorKind::unsupported,
                   "no GEMM library was found: " + quick.error().text + "; " + every.error().text};
    }
    if (quick.ok()) {
      in_order.push_back(std::move(quick).value());
      for (Buffer& buffer : workspace) {
        FULMAR_ASSIGN(buffer, allocate_device(kLibraryWorkspace));
      }
    }
    if (every.ok()) in_order.push_back(std::move(every).value());
    return {};
  }
};

VendorGemm::VendorGemm() = default;
VendorGemm::~VendorGemm() = default;

Result<std::unique_ptr<VendorGemm>> VendorGemm::open(const DeviceFacts&, const VendorGemmOptions& options) {
  std::unique_ptr<VendorGemm> gemm(new VendorGemm);
  if (options.plain) return gemm;
  gemm->library_ = std::make_unique<Library>();
  FULMAR_TRY(gemm->library_->open());
  return gemm;
}

// Returns nothing: these libraries choose their kernels without timing them.
std::vector<int64_t> VendorGemm::buckets(int64_t) const { return {}; }

bool VendorGemm::run_float8(const Queue&, Tensor, const float*, const Weight&, Tensor) { return false; }

void VendorGemm::run(const Queue& queue, Tensor in, const Weight& weight, Tensor out) {
  if (library_ == nullptr) return launch_naive(queue, in, weight, out);
  const LibraryProduct product{in.rows,           weight.out, weight.in,  in.data,  in.stride, weight.data,
                               weight.by_input(), out.data,   out.stride, in.dtype, out.dtype};
  const Buffer& memory = library_->workspace[queue.index];
  std::string refusals = "no GEMM library has a kernel for a product";
  for (const auto& library : library_->in_order) {
    const auto done = library->run(queue.stream, product, {memory.data(), memory.bytes()});
    if (done.ok() && done.value()) return;
    if (!done.ok()) refusals += "; " + done.error().text;
  }
  device_failed(cudaErrorUnknown, refusals.c_str(), __FILE__, __LINE__);
}

}  // namespace fulmar::gpu
