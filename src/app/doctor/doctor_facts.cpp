#include "app/doctor/doctor_facts.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "app/core/model_source.h"
#include "app/core/version_text.h"
#include "base/read_file.h"
#include "cpu/cpu_ops.h"
#include "cpu/row_math.h"
#include "files/checkpoint.h"
#include "files/identify.h"
#include "hub/web_get.h"
#include "ops/device.h"
#include "text/locate_vocabulary.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

// Returns a file's first word of digits and points, the version in "NVRM version: NVIDIA UNIX x86_64 Kernel
// Module 580.159.04 ...". Empty: no such word, or no file.
std::string version_in(const char* path) {
  constexpr size_t kMostBytes = 4096;
  std::istringstream words(read_if_there(path, kMostBytes));
  for (std::string word; words >> word;) {
    const bool number =
        word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos;
    if (number) return word;
  }
  return {};
}

std::string driver_version(bool amd) {
  if (!amd) return version_in("/proc/driver/nvidia/version");
  std::error_code error;
  if (!fs::exists("/dev/kfd", error)) return {};
  const std::string version = version_in("/sys/module/amdgpu/version");  // of a driver apart from the kernel
  return version.empty() ? "of this kernel" : version;
}

bool loads_one_of(const std::vector<const char*>& names) {
  return std::any_of(names.begin(), names.end(), [](const char* name) {
    void* library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) ::dlclose(library);
    return library != nullptr;
  });
}

bool has_gemm_library(bool amd) {
  const std::vector<const char*> names =
      amd ? std::vector<const char*>{"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so",
                                     "librocblas.so.5",   "librocblas.so.4",   "librocblas.so.0",
                                     "librocblas.so"}
          : std::vector<const char*>{"libcublasLt.so.13", "libcublasLt.so.12",
                                     "/usr/local/cuda/lib64/libcublasLt.so"};
  return loads_one_of(names);
}

bool has_sum_library(bool amd) {
  return amd ? loads_one_of({"librccl.so.1", "librccl.so", "/opt/rocm/lib/librccl.so.1"})
             : loads_one_of(
                   {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "/opt/cuda/lib64/libnccl.so.2"});
}

GpuFact look_at(const GpuInfo& gpu) {
  GpuFact fact{.name = fmt::format("{}:{} ({})", gpu_kind(), gpu.index, gpu.name),
               .total = gpu.memory_total,
               .free = 0,
               .refusal = {}};
  try {
    const auto opened = open_gpu({.index = gpu.index, .plain_products = true});
    if (opened.ok()) {
      fact.free = (*opened)->memory_free();
    } else {
      fact.refusal = opened.error().text;
    }
  } catch (const DeviceFailure& failure) {
    fact.refusal = failure.what();
  }
  return fact;
}

int usable_threads() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// Returns why nothing can listen there; empty: it is free.
std::string port_problem(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
      failure != 0) {
    return ::gai_strerror(failure);
  }
  const std::unique_ptr<addrinfo, FreeAddresses> found(list);
  const int one = ::socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, 0);
  if (one < 0) return std::strerror(errno);
  const int on = 1;
  ::setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool fine = ::bind(one, found->ai_addr, found->ai_addrlen) == 0 && ::listen(one, 1) == 0;
  const int failure = errno;
  ::close(one);
  return fine ? std::string() : std::strerror(failure);
}

// Looks at the nearest folder that exists: those missing below it would be made there.
FolderFact look_at_folder(std::string purpose, const fs::path& wanted) {
  FolderFact fact{.purpose = std::move(purpose), .path = wanted.string()};
  std::error_code error;
  fs::path there = fs::absolute(wanted, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  fact.writable = fs::is_directory(there, error) && ::access(there.c_str(), W_OK | X_OK) == 0;
  const fs::space_info space = fs::space(there, error);
  if (!error) fact.free = space.available;
  return fact;
}

// Looks at the file itself if it is not a file of sessions, else at its folder.
FolderFact look_at_sessions(const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::absolute(file, error).parent_path();
  FolderFact fact = look_at_folder("sessions", folder);
  const bool fits = fs::exists(file, error)
                        ? fs::is_regular_file(file, error) && ::access(file.c_str(), R_OK | W_OK) == 0
                        : fs::is_directory(folder, error);
  if (fits) return fact;
  fact.path = file.string();
  fact.writable = false;
  return fact;
}

Result<ModelFact> plan(const std::string& name) {
  FULMAR_ASSIGN(const fs::path path, find_model(name));
  FULMAR_ASSIGN(const auto checkpoint, open_checkpoint(path));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  FULMAR_TRY(tokenizer_of(*checkpoint, path, config.vocab, {}));
  const auto ops = make_cpu_ops({.threads = 1});
  FULMAR_ASSIGN(const MemoryPlan memory,
                plan_memory(*checkpoint, config, *ops,
                            {.max_rows = ops->traits().suitable_rows, .max_wanted = 64, .slots = 1}));
  ModelFact fact{.path = path.string(), .what = {}, .problem = {}, .needs = memory.total()};
  for (const StoredTensor& tensor : checkpoint->tensors()) fact.needs += tensor.bytes();
  fact.what = fmt::format("RWKV-{}, {:.3g} billion parameters", config.version,
                          static_cast<double>(config.parameters) / 1e9);
  return fact;
}

}  // namespace

MachineFacts look_around(const DoctorFlags& flags) {
  MachineFacts facts;
  facts.program = one_line_version();
  facts.instruction_set = cpu::instruction_set();
  facts.threads = usable_threads();
  facts.memory_free = make_cpu_ops({.threads = 1})->memory_free();
  facts.gpu_targets = gpu_targets();
  facts.amd = std::string_view(gpu_kind()) == "hip";
  facts.driver = driver_version(facts.amd);
  for (const GpuInfo& gpu : list_gpus()) facts.gpus.push_back(look_at(gpu));
  facts.gemm_library = has_gemm_library(facts.amd);
  facts.sum_library = facts.gpus.size() > 1 && has_sum_library(facts.amd);
  facts.host = flags.host;
  facts.port = flags.port;
  facts.port_problem = port_problem(flags.host, flags.port);
  facts.folders.push_back(look_at_folder("models", vocabulary_folder() / "models"));
  if (flags.session_db != "none") {
    facts.folders.push_back(look_at_sessions(flags.session_db));
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) facts.open_files = limit.rlim_cur;
  auto model = plan(flags.model);
  if (model.ok()) {
    facts.model = std::move(*model);
  } else {
    facts.model.problem = model.error().text;
  }
  const fs::path world = vocabulary_folder() / kWorldFileName;
  if (std::error_code error; fs::is_regular_file(world, error)) facts.world_vocabulary = world.string();
  const char* told = std::getenv("SSL_CERT_FILE");
  facts.certificates = told != nullptr && *told != 0 ? told : known_certificates();
  return facts;
}

}  // namespace fulmar
