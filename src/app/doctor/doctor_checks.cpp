#include "app/doctor/doctor_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

namespace fulmar {
namespace {

constexpr uint64_t kFewFiles = 4096;                 // a stream is one open file
constexpr uint64_t kLittleDisk = uint64_t{5} << 30;  // less than a model of a few billion parameters
constexpr int kMiB = 20;

std::string mib(uint64_t bytes) { return fmt::format("{} MiB", bytes >> kMiB); }

Finding cpu(const MachineFacts& facts) {
  Finding finding{Health::fine, "cpu", fmt::format("{}, {} threads", facts.instruction_set, facts.threads),
                  ""};
  const bool wide = facts.instruction_set.starts_with("AVX") || facts.instruction_set.starts_with("NEON") ||
                    facts.instruction_set.starts_with("SVE");
  if (!wide) {
    finding.health = Health::note;
    finding.advice =
        "models run, but slowly: a CPU with AVX2 is several times faster; in a virtual machine, pass "
        "the host's CPU through";
  }
  return finding;
}

bool is_usable(const GpuFact& gpu) { return gpu.refusal.empty(); }

Finding memory(const MachineFacts& facts) {
  Finding finding{Health::fine, "memory", mib(facts.memory_free) + " free", ""};
  const bool on_cpu = std::none_of(facts.gpus.begin(), facts.gpus.end(), is_usable);
  if (on_cpu && facts.model.needs > facts.memory_free) {
    finding.health = Health::bad;
    finding.text += fmt::format(", the model needs {}", mib(facts.model.needs));
    finding.advice = "end other programs, take a smaller model, or add --quantize q4_k";
  }
  return finding;
}

Finding gpu(const GpuFact& one, const MachineFacts& facts) {
  if (!is_usable(one)) {
    return {Health::bad, "gpu", one.name + ": " + one.refusal,
            fmt::format("this build has kernels for {}; --devices cpu runs without it", facts.gpu_targets)};
  }
  Finding finding{Health::fine, "gpu",
                  fmt::format("{}, {} of {} free", one.name, mib(one.free), mib(one.total)), ""};
  if (facts.model.needs > one.free) {
    finding.health = Health::note;
    finding.text += fmt::format(", the model needs {}", mib(facts.model.needs));
    finding.advice = "end other programs on it, take a smaller model, or --devices cpu";
  }
  return finding;
}

// Names for each vendor's cards.
struct VendorWords {
  std::string_view vendor, driver, look, visible, library, package, sums;
};
constexpr VendorWords kNvidia{"NVIDIA",     "install its driver (Debian: nvidia-driver)",
                              "nvidia-smi", "CUDA_VISIBLE_DEVICES",
                              "cublaslt",   "CUDA's libcublas",
                              "nccl"};
constexpr VendorWords kAmd{"AMD",       "load the kernel's amdgpu driver", "rocm-smi", "HIP_VISIBLE_DEVICES",
                           "hipblaslt", "ROCm's hipblaslt or rocblas",     "rccl"};

std::vector<Finding> gpus(const MachineFacts& facts) {
  const VendorWords& words = facts.amd ? kAmd : kNvidia;
  const bool built = facts.gpu_targets != "none";
  if (!built && facts.driver.empty()) return {{Health::fine, "gpu", "none; this build is for the CPU", ""}};
  if (!built) {
    return {{Health::note, "gpu", fmt::format("driver {}, but this build is for the CPU alone", facts.driver),
             "install the -cuda package, or build where nvcc is"}};
  }
  if (facts.driver.empty()) {
    return {{Health::note, "gpu", fmt::format("no {} driver; models run on the CPU", words.vendor),
             fmt::format("if there is a GPU, {} and look at {}", words.driver, words.look)}};
  }
  std::vector<Finding> found{{Health::fine, "driver", fmt::format("{} {}", words.vendor, facts.driver), ""}};
  if (facts.gpus.empty()) {
    found.push_back(
        {Health::note, "gpu", "the driver shows none; models run on the CPU",
         fmt::format("look at {}; in a container, pass the GPUs in; see {}", words.look, words.visible)});
  }
  for (const GpuFact& one : facts.gpus) found.push_back(gpu(one, facts));
  if (!facts.gpus.empty()) {
    const std::string name(words.library);
    found.push_back(facts.gemm_library ? Finding{Health::fine, name, "found", ""}
                                       : Finding{Health::note, name, "not found: large products are slow",
                                                 fmt::format("install {}", words.package)});
  }
  // Nothing depends on it: it is for comparisons.
  if (facts.gpus.size() > 1) {
    const char* const text = facts.sum_library ? "found" : "not found; needed by nothing but comparisons";
    found.push_back({Health::fine, std::string(words.sums), text, ""});
  }
  return found;
}

Finding port(const MachineFacts& facts) {
  const std::string where = fmt::format("{}:{}", facts.host, facts.port);
  if (facts.port_problem.empty()) return {Health::fine, "port", where + " is free", ""};
  return {Health::bad, "port", where + ": " + facts.port_problem,
          "end what listens there, or choose another with --port (0 takes a free one)"};
}

Finding folder(const FolderFact& facts) {
  Finding finding{Health::fine, facts.purpose, fmt::format("{}, {} free", facts.path, mib(facts.free)), ""};
  if (!facts.writable) {
    finding.health = Health::bad;
    finding.text = facts.path + " cannot be written to";
    finding.advice = facts.purpose == "sessions"
                         ? "name another file with --state-db-path, or 'none'; else sessions are lost at exit"
                         : "change its owner, or name another folder with XDG_DATA_HOME";
  } else if (facts.free < kLittleDisk) {
    finding.health = Health::note;
    finding.advice = facts.purpose == "sessions"
                         ? "make room: sessions that cannot be written are lost at exit"
                         : "make room before pulling models";
  }
  return finding;
}

Finding files(const MachineFacts& facts) {
  Finding finding{Health::fine, "files", fmt::format("{} may be open at once", facts.open_files), ""};
  if (facts.open_files < kFewFiles) {
    finding.health = Health::note;
    finding.advice = fmt::format("each stream takes one: ulimit -n {} before thousands of clients", 65536);
  }
  return finding;
}

Finding model(const ModelFact& facts) {
  if (facts.problem.empty())
    return {Health::fine, "model", fmt::format("{} ({})", facts.path, facts.what), ""};
  return {Health::bad, "model", facts.problem,
          "fulmar models lists what is there, fulmar pull gets more, fulmar inspect tells what a file holds"};
}

Finding vocabulary(const MachineFacts& facts) {
  if (!facts.world_vocabulary.empty()) return {Health::fine, "vocabulary", facts.world_vocabulary, ""};
  return {Health::note, "vocabulary", "the World vocabulary is not imported",
          "models that bring none want it: fulmar tokenizer import rwkv_vocab_v20230424.txt"};
}

Finding certificates(const MachineFacts& facts) {
  if (!facts.certificates.empty()) return {Health::fine, "certificates", facts.certificates, ""};
  return {Health::note, "certificates", "no trusted certificates were found",
          "fulmar pull wants them for https: install ca-certificates, or set SSL_CERT_FILE"};
}

}  // namespace

std::vector<Finding> examine(const MachineFacts& facts) {
  std::vector<Finding> found{{Health::fine, "program", facts.program, ""}, cpu(facts), memory(facts)};
  for (Finding& finding : gpus(facts)) found.push_back(std::move(finding));
  found.push_back(port(facts));
  for (const FolderFact& one : facts.folders) found.push_back(folder(one));
  found.push_back(files(facts));
  found.push_back(model(facts.model));
  found.push_back(vocabulary(facts));
  found.push_back(certificates(facts));
  return found;
}

std::string line_of(const Finding& finding) {
  const char* mark = finding.health == Health::fine ? "ok" : finding.health == Health::note ? "note" : "bad";
  return fmt::format("{:<5} {:<13} {}{}{}", mark, finding.name, finding.text,
                     finding.advice.empty() ? "" : ": ", finding.advice);
}

}  // namespace fulmar
