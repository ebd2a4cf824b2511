// hipBLASLt (ROCm 6 and later), which is quicker than rocBLAS on the cards that it knows and has no kernels
// for others. Its first choice for each problem is kept.
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "gpu/gemm/library/amd/library_file.h"

namespace fulmar::gpu {

namespace {

constexpr const char* kHipblaslt = "hipBLASLt";
// 0.6, of ROCm 6.0: major * 100000 + minor * 100 + patch. Before it the types had other numbers.
constexpr int kLeastVersion = 600;
constexpr size_t kMostDescribed = 1024;  // problems whose descriptors are kept

enum Type : int { kFloat = 0, kHalf = 2, kBFloat = 14 };
enum Compute : int { kComputeFloat = 2 };
enum Operation : int { kAsIs = 111, kTransposed = 112 };
enum DescriptorAttribute : int { kTransposeA = 0, kTransposeB = 1 };
enum PreferenceAttribute : int { kMostWorkspace = 1 };

Type hip_type_of(DType dtype) {
  if (dtype == DType::f32) return kFloat;
  return dtype == DType::bf16 ? kBFloat : kHalf;
}

struct Algorithm {
  uint8_t data[16];
  size_t most_workspace;
};
struct AlgorithmChoice {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

using Handle = void*;
using GemmDescriptor = struct MatmulDescriptor*;
using MatrixLayout = struct LibraryLayout*;
using Preference = struct MatmulPreference*;

struct HipblasltFunctions {
  int (*create)(Handle*) = nullptr;
  int (*destroy)(Handle) = nullptr;
  int (*version)(Handle, int*) = nullptr;
  int (*create_descriptor)(GemmDescriptor*, Compute, Type scale) = nullptr;
  int (*destroy_descriptor)(GemmDescriptor) = nullptr;
  int (*set_descriptor)(GemmDescriptor, DescriptorAttribute, const void*, size_t) = nullptr;
  int (*create_layout)(MatrixLayout*, Type, uint64_t rows, uint64_t cols, int64_t stride) = nullptr;
  int (*destroy_layout)(MatrixLayout) = nullptr;
  int (*create_preference)(Preference*) = nullptr;
  int (*destroy_preference)(Preference) = nullptr;
  int (*set_preference)(Preference, PreferenceAttribute, const void*, size_t) = nullptr;
  int (*choose)(Handle, GemmDescriptor, MatrixLayout a, MatrixLayout b, MatrixLayout c, MatrixLayout d,
                Preference, int wanted, AlgorithmChoice*, int* found) = nullptr;
  int (*multiply)(Handle, GemmDescriptor, const void* alpha, const void* a, MatrixLayout, const void* b,
                  MatrixLayout, const void* beta, const void* c, MatrixLayout, void* d, MatrixLayout,
                  const Algorithm*, void* workspace, size_t workspace_bytes, void* stream) = nullptr;

  Status load(const SharedLibrary& file) {
    const auto all = [&](auto&& each) {
      return each("hipblasLtCreate", create) && each("hipblasLtDestroy", destroy) &&
             each("hipblasLtGetVersion", version) && each("hipblasLtMatmulDescCreate", create_descriptor) &&
             each("hipblasLtMatmulDescDestroy", destroy_descriptor) &&
             each("hipblasLtMatmulDescSetAttribute", set_descriptor) &&
             each("hipblasLtMatrixLayoutCreate", create_layout) &&
             each("hipblasLtMatrixLayoutDestroy", destroy_layout) &&
             each("hipblasLtMatmulPreferenceCreate", create_preference) &&
             each("hipblasLtMatmulPreferenceDestroy", destroy_preference) &&
             each("hipblasLtMatmulPreferenceSetAttribute", set_preference) &&
             each("hipblasLtMatmulAlgoGetHeuristic", choose) && each("hipblasLtMatmul", multiply);
    };
    const char* missing = nullptr;
    const bool complete = all([&](const char* name, auto& function) {
      if (file.load(name, function)) return true;
      missing = name;
      return false;
    });
    return complete ? Status{} : lacks(kHipblaslt, missing);
  }
};

// The library's objects for one problem, and its choice; without a choice it has no kernel.
struct DescribedProblem {
  explicit DescribedProblem(const HipblasltFunctions& of) : functions(of) {}
  DescribedProblem(const DescribedProblem&) = delete;
  DescribedProblem& operator=(const DescribedProblem&) = delete;
  ~DescribedProblem() {
    if (descriptor != nullptr) functions.destroy_descriptor(descriptor);
    for (const MatrixLayout layout : {weight, in, out}) {
      if (layout != nullptr) functions.destroy_layout(layout);
    }
  }

  const HipblasltFunctions& functions;
  GemmDescriptor descriptor = nullptr;
  MatrixLayout weight = nullptr, in = nullptr, out = nullptr;
  std::optional<AlgorithmChoice> choice;
};

// All that a choice may depend on: sizes, strides, types, alignments and working memory.
using ProblemKey = std::array<int64_t, 12>;

int64_t least_bit_of(const void* data) {
  constexpr uintptr_t kMost = 16;
  const uintptr_t address = reinterpret_cast<uintptr_t>(data) | kMost;
  return static_cast<int64_t>(address & (~address + 1));
}

class Hipblaslt final : public GemmLibrary {
 public:
  explicit Hipblaslt(SharedLibrary file) : file_(std::move(file)) {}
  ~Hipblaslt() override {
    problems_.clear();
    if (handle_ != nullptr) functions_.destroy(handle_);
  }

  Status start() {
    FULMAR_TRY(functions_.load(file_));
    if (const int status = functions_.create(&handle_); status != kLibrarySuccess) {
      handle_ = nullptr;
      return failed("hipblasLtCreate", status);
    }
    int version = 0;
    if (const int status = functions_.version(handle_, &version); status != kLibrarySuccess)
      return failed("hipblasLtGetVersion", status);
    if (version >= kLeastVersion) return {};
    return Error{ErrorKind::unsupported, "hipBLASLt has version " + std::to_string(version) + "; wanted " +
                                             std::to_string(kLeastVersion) + " or later"};
  }

  Result<bool> run(void* stream, const LibraryProduct& product, const LibraryWorkspace& workspace) override {
    FULMAR_ASSIGN(const DescribedProblem* problem, problem_of(product, workspace));
    if (!problem->choice) return false;
    const float one = 1, zero = 0;
    const int status =
        functions_.multiply(handle_, problem->descriptor, &one, product.weight, problem->weight, product.in,
                            problem->in, &zero, product.out, problem->out, product.out, problem->out,
                            &problem->choice->algorithm, workspace.data, workspace.bytes, stream);
    if (status != kLibrarySuccess) return failed("hipblasLtMatmul", status);
    return true;
  }

 private:
  Result<const DescribedProblem*> problem_of(const LibraryProduct& product,
                                             const LibraryWorkspace& workspace) {
    const ProblemKey key{product.rows,
                         product.outs,
                         product.inner,
                         product.in_stride,
                         product.out_stride,
                         static_cast<int64_t>(product.transposed),
                         static_cast<int64_t>(product.type),
                         static_cast<int64_t>(product.out_type),
                         least_bit_of(product.in),
                         least_bit_of(product.weight),
                         least_bit_of(product.out),
                         static_cast<int64_t>(workspace.bytes)};
    if (const auto known = problems_.find(key); known != problems_.end()) return known->second.get();
    if (problems_.size() >= kMostDescribed) problems_.clear();
    auto problem = std::make_unique<DescribedProblem>(functions_);
    FULMAR_TRY(describe(product, *problem));
    FULMAR_TRY(choose(workspace.bytes, *problem));
    return problems_.emplace(key, std::move(problem)).first->second.get();
  }

  // Describes a product, column-major: a row-major matrix is its transpose there, out^T = weight * in^T.
  Status describe(const LibraryProduct& product, DescribedProblem& to) const {
    const auto count = [](int64_t n) { return static_cast<uint64_t>(n); };
    const Type type = hip_type_of(product.type), out_type = hip_type_of(product.out_type);
    const int of_weight = product.transposed ? kAsIs : kTransposed, of_in = kAsIs;
    const int64_t rows = product.transposed ? product.outs : product.inner,
                  cols = product.transposed ? product.inner : product.outs;
    int status = functions_.create_descriptor(&to.descriptor, kComputeFloat, kFloat);
    if (status != kLibrarySuccess) return failed("hipblasLtMatmulDescCreate", status);
    status = functions_.set_descriptor(to.descriptor, kTransposeA, &of_weight, sizeof(of_weight));
    if (status == kLibrarySuccess)
      status = functions_.set_descriptor(to.descriptor, kTransposeB, &of_in, sizeof(of_in));
    if (status != kLibrarySuccess) return failed("hipblasLtMatmulDescSetAttribute", status);
    status = functions_.create_layout(&to.weight, type, count(rows), count(cols), rows);
    if (status == kLibrarySuccess) {
      status = functions_.create_layout(&to.in, type, count(product.inner), count(product.rows),
                                        product.in_stride);
    }
    if (status == kLibrarySuccess) {
      status = functions_.create_layout(&to.out, out_type, count(product.outs), count(product.rows),
                                        product.out_stride);
    }
    if (status != kLibrarySuccess) return failed("hipblasLtMatrixLayoutCreate", status);
    return {};
  }

  // Asks for the library's choice. No answer, or one without a choice, means that it has no kernel.
  Status choose(size_t most_workspace, DescribedProblem& to) const {
    Preference preference = nullptr;
    if (const int status = functions_.create_preference(&preference); status != kLibrarySuccess)
      return failed("hipblasLtMatmulPreferenceCreate", status);
    const uint64_t bytes = most_workspace;
    int status = functions_.set_preference(preference, kMostWorkspace, &bytes, sizeof(bytes));
    AlgorithmChoice choice{};
    int found = 0;
    const bool asked = status == kLibrarySuccess;
    if (asked) {
      status = functions_.choose(handle_, to.descriptor, to.weight, to.in, to.out, to.out, preference, 1,
                                 &choice, &found);
    }
    functions_.destroy_preference(preference);
    if (!asked) return failed("hipblasLtMatmulPreferenceSetAttribute", status);
    if (status == kLibrarySuccess && found > 0 && choice.state == kLibrarySuccess &&
        choice.workspace <= most_workspace)
      to.choice = choice;
    return {};
  }

  SharedLibrary file_;
  HipblasltFunctions functions_;
  Handle handle_ = nullptr;
  std::map<ProblemKey, std::unique_ptr<DescribedProblem>> problems_;
};

}  // namespace

Result<std::unique_ptr<GemmLibrary>> open_hipblaslt(LibraryFiles files) {
  FULMAR_ASSIGN(SharedLibrary file, open_first(files, kHipblaslt));
  auto library = std::make_unique<Hipblaslt>(std::move(file));
  FULMAR_TRY(library->start());
  return std::unique_ptr<GemmLibrary>(std::move(library));
}

}  // namespace fulmar::gpu
