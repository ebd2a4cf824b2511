#include "app/open_devices.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/user_folder.h"
#include "cpu/cpu_ops.h"
#include "ops/device.h"

namespace fulmar {

namespace {

// Rows behind which a GPU writes f32 states by default, where decoding many sequences was quickest.
constexpr int64_t kDeferOnGpu = 4;
constexpr size_t kMostDevices = 64;
constexpr std::string_view kKinds[] = {"cuda", "hip"};
constexpr const char* kWanted = "auto, cpu, cuda, cuda:N, hip or hip:N";

// A number of at most three digits; -1: it is none.
int small_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && text.size() <= 3 ? number : -1;
}

// Between commas, without brackets around them all and without blanks.
std::vector<std::string> parts_of(std::string list) {
  std::erase_if(list, [](unsigned char c) { return std::isspace(c); });
  if (list.size() >= 2 && list.front() == '[' && list.back() == ']') list = list.substr(1, list.size() - 2);
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

CpuOptions host_options(const DeviceFlags& flags, int threads) {
  return {.threads = threads,
          .state_writes = {.every = std::max<int64_t>(flags.defer, 1), .revocable = flags.revocable},
          .deterministic = flags.deterministic,
          .activation_bits = flags.coded_activation == "int8"    ? 8
                             : flags.coded_activation == "int15" ? 15
                                                                 : 22};
}

DeviceOptions gpu_options(const DeviceFlags& flags) {
  DeviceOptions options;
  options.half_state = flags.state_dtype == "fp16";
  options.activation = flags.activation == "bf16" ? DType::bf16 : DType::f16;
  options.float8_inputs = flags.activation == "fp8";
  options.plain_products = flags.plain_products;
  options.deterministic = flags.deterministic;
  options.panels = !flags.no_panels;
  options.matrix_units = !flags.no_matrix_units;
  const auto cache = user_folder("XDG_CACHE_HOME", ".cache");
  if (cache && cache->is_absolute()) options.gemm_choices = *cache / "gemm-choices.txt";
  options.state_writes = {.every = flags.defer > 0      ? flags.defer
                                   : options.half_state ? 1
                                                        : kDeferOnGpu,
                          .revocable = flags.revocable_on_gpu ? flags.revocable : 0};
  return options;
}

// Whether a name is that of a GPU of either kind, and which: "cuda" is the first.
struct GpuName {
  std::string_view kind;
  int index = 0;
};
std::optional<GpuName> gpu_name(std::string_view text) {
  for (const std::string_view kind : kKinds) {
    if (text == kind) return GpuName{kind, 0};
    if (!text.starts_with(kind) || text.substr(kind.size(), 1) != ":") continue;
    const int index = small_number(text.substr(kind.size() + 1));
    if (index >= 0) return GpuName{kind, index};
  }
  return std::nullopt;
}

Result<std::unique_ptr<Ops>> open_named(DeviceOptions options, const GpuName& name) {
  const std::string_view built = gpu_kind();
  if (!built.empty() && name.kind != built) {
    return Error{ErrorKind::unsupported,
                 fmt::format("this program was built for {} devices; wanted {}", built, name.kind)};
  }
  options.index = name.index;
  return open_gpu(options);
}

Result<std::unique_ptr<Ops>> open_one(const DeviceFlags& flags) {
  const bool any = flags.device == "auto";
  const auto name = any ? std::optional(GpuName{gpu_kind(), 0}) : gpu_name(flags.device);
  if (name) {
    auto opened = open_named(gpu_options(flags), *name);
    if (opened.ok() || !any) return opened;
    const bool none = list_gpus().empty();
    spdlog::log(none ? spdlog::level::debug : spdlog::level::warn, "running on the CPU: {}",
                opened.error().text);
  } else if (flags.device != "cpu") {
    return Error{ErrorKind::invalid, fmt::format("--device is '{}'; wanted {}", flags.device, kWanted)};
  }
  return make_cpu_ops(host_options(flags, flags.threads));
}

// The devices that several flags name together, and the flag that names them.
struct NamedDevices {
  const char* flag;
  std::vector<std::string> names;
};

// --tp N alone: the first N GPUs, or so many ranks on the CPU.
Result<std::vector<std::string>> first_devices(const DeviceFlags& flags) {
  if (flags.device == "cpu") return std::vector<std::string>(static_cast<size_t>(flags.tp), "cpu");
  if (flags.device != "auto") {
    return Error{ErrorKind::invalid,
                 fmt::format("--tp is {} and --device '{}'; wanted --tp-devices, which names all of them",
                             flags.tp, flags.device)};
  }
  const auto gpus = static_cast<int64_t>(list_gpus().size());
  if (gpus < flags.tp) {
    return Error{ErrorKind::unsupported,
                 fmt::format("--tp is {}; this machine has {} GPUs that can be used", flags.tp, gpus)};
  }
  std::vector<std::string> names;
  for (int64_t i = 0; i < flags.tp; i++) names.push_back(fmt::format("{}:{}", gpu_kind(), i));
  return names;
}

Result<NamedDevices> named_devices(const DeviceFlags& flags) {
  const auto one_of = [](const char* one, const std::string& found, const char* other,
                         const std::string& also) {
    return Error{ErrorKind::invalid,
                 fmt::format("{} is '{}' and {} '{}'; wanted one of them", one, found, other, also)};
  };
  const bool pipeline = !flags.pp_devices.empty(), shared = !flags.tp_devices.empty();
  const char* flag = pipeline ? "--pp-devices" : shared ? "--tp-devices" : "--tp";
  const std::string& list = pipeline ? flags.pp_devices : flags.tp_devices;
  if (!pipeline && !flags.pp_split.empty()) {
    return Error{ErrorKind::invalid, fmt::format("--pp-split is '{}' without --pp-devices", flags.pp_split)};
  }
  if (pipeline && shared) return one_of("--pp-devices", flags.pp_devices, "--tp-devices", flags.tp_devices);
  if (shared && flags.tp > 0)
    return one_of("--tp-devices", flags.tp_devices, "--tp", std::to_string(flags.tp));
  if (list.empty()) {
    FULMAR_ASSIGN(auto names, first_devices(flags));
    return NamedDevices{flag, std::move(names)};
  }
  if (flags.device != "auto") return one_of("--device", flags.device, flag, list);
  FULMAR_ASSIGN(auto names, device_list(flag, list));
  return NamedDevices{flag, std::move(names)};
}

// CPU ranks share the threads that one would have.
Result<Devices> open_several(const DeviceFlags& flags, const NamedDevices& named) {
  const auto hosts = static_cast<int>(std::count(named.names.begin(), named.names.end(), "cpu"));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = flags.threads > 0 ? flags.threads : cores;
  Devices devices;
  for (const std::string& name : named.names) {
    if (name == "cpu") {
      devices.push_back(make_cpu_ops(host_options(flags, std::max(1, threads / hosts))));
      continue;
    }
    auto opened = open_named(gpu_options(flags), *gpu_name(name));
    if (!opened.ok()) {
      return Error{opened.error().kind,
                   fmt::format("{} names {}: {}", named.flag, name, opened.error().text)};
    }
    devices.push_back(std::move(*opened));
  }
  return devices;
}

}  // namespace

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, kWanted)->capture_default_str();
  app.add_option(
      "--pp-devices", flags.pp_devices,
      "devices that share the model's layers as a pipeline, such as 0,1 or [0,1,2,3]; auto: every GPU");
  app.add_option("--pp-split", flags.pp_split,
                 "layers of each of --pp-devices, such as 10,22; default: by memory and speed");
  app.add_option(
         "--pp-steps", flags.pp_steps,
         "steps under way at once in a pipeline, among which the running rows are divided; 0: one for "
         "each device")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  app.add_option("--tp-devices", flags.tp_devices,
                 "devices that share every layer (tensor parallelism), such as 0,1; auto: every GPU");
  app.add_option(
         "--tp", flags.tp,
         "tensor parallelism over the first so many GPUs; with --pp-devices: so many of those to a stage")
      ->check(CLI::Range(1, static_cast<int>(kMostDevices)));
  app.add_option("--collective-timeout", flags.collective_timeout,
                 "seconds that a tensor-parallel device waits for the others before it gives up")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--threads", flags.threads, "CPU threads; 0 takes all cores")->capture_default_str();
  app.add_option("--state-dtype", flags.state_dtype,
                 "how states are kept between tokens on a GPU: fp32 or fp16")
      ->check(CLI::IsMember({"fp32", "fp16"}))
      ->capture_default_str();
  app.add_option(
         "--activation", flags.activation,
         "what a GPU hands on between its products, and keeps 16-bit weights in: fp16, or bf16 for "
         "weights beyond 65504, with 8 bits of precision in place of 11; fp8: fp16, but fp8 in front of "
         "fp8 weights (--quantize fp8), for speed with many rows")
      ->check(CLI::IsMember({"fp16", "bf16", "fp8"}))
      ->capture_default_str();
  app.add_option(
         "--cpu-activation", flags.coded_activation,
         "what the CPU rounds activations to in front of quantised weights: int22, as near as f32; int15, "
         "quicker by a third, with 3e-5 more error a product; int8, twice as quick, with 5e-3; in front of "
         "16-bit weights of many rows likewise, on processors with AMX: as three, two or one bf16")
      ->check(CLI::IsMember({"int22", "int15", "int8"}))
      ->capture_default_str();
  app.add_option(
         "--defer-state-writes", flags.defer,
         "write states behind every M-th token only and replay the tokens since on chip, 1 to 16; 0: 4 for "
         "fp32 states on a GPU, else 1")
      ->check(CLI::Range(int64_t{0}, kMostDeferred))
      ->capture_default_str();
  app.add_flag(
      "--deterministic", flags.deterministic,
      "the same tokens and bits for a sequence whatever else is computed with it (batch-invariant): one "
      "order of adding for every number of rows, prompts in pieces of --prefill-chunk; slower");
  app.add_flag("--plain-products", flags.plain_products,
               "large products on a GPU without cuBLASLt, where it is missing or fails; slow");
  app.add_flag("--no-panels", flags.no_panels,
               "products on a GPU of compute capability 9.0 as on those before it; to time that");
  app.add_flag("--no-matrix-units", flags.no_matrix_units,
               "a GPU's work in the form that AMD's cards run it; to test and time that");
}

Result<std::vector<std::string>> device_list(const std::string& flag, const std::string& list) {
  std::vector<std::string> names = parts_of(list);
  if (names.size() == 1 && names.front() == "auto") {
    names.clear();
    for (const GpuInfo& gpu : list_gpus()) names.push_back(fmt::format("{}:{}", gpu_kind(), gpu.index));
    if (!names.empty()) return names;
    return Error{ErrorKind::unsupported, flag + " is 'auto' and no GPU can be used"};
  }
  for (std::string& name : names) {
    if (small_number(name) >= 0)
      name = fmt::format("{}:{}", *gpu_kind() == 0 ? "cuda" : gpu_kind(), small_number(name));
    if (gpu_name(name) || name == "cpu") continue;
    return Error{
        ErrorKind::invalid,
        fmt::format("{} is '{}' and names '{}'; wanted auto, or numbers of GPUs, cuda:N, hip:N or cpu "
                    "with commas between them",
                    flag, list, name)};
  }
  if (names.size() <= kMostDevices) return names;
  return Error{ErrorKind::invalid,
               fmt::format("{} names {} devices; wanted at most {}", flag, names.size(), kMostDevices)};
}

Result<std::vector<int64_t>> parse_split(const std::string& text) {
  std::vector<int64_t> counts;
  if (text.empty()) return counts;
  for (const std::string& part : parts_of(text)) {
    counts.push_back(small_number(part));
    if (counts.back() >= 1) continue;
    return Error{ErrorKind::invalid,
                 fmt::format("--pp-split is '{}'; wanted numbers of layers such as 10,22", text)};
  }
  return counts;
}

bool spreads(const DeviceFlags& flags) {
  return !flags.pp_devices.empty() || !flags.tp_devices.empty() || flags.tp > 1;
}

std::chrono::milliseconds collective_timeout_of(const DeviceFlags& flags) {
  return std::chrono::milliseconds(static_cast<int64_t>(flags.collective_timeout * 1000));
}

Result<Devices> open_devices(const DeviceFlags& flags) {
  if (spreads(flags)) {
    FULMAR_ASSIGN(const NamedDevices named, named_devices(flags));
    return open_several(flags, named);
  }
  if (!flags.pp_split.empty()) {
    return Error{ErrorKind::invalid, fmt::format("--pp-split is '{}' without --pp-devices", flags.pp_split)};
  }
  FULMAR_ASSIGN(auto one, open_one(flags));
  Devices devices;
  devices.push_back(std::move(one));
  return devices;
}

int64_t slices_of(const DeviceFlags& flags, const Devices& devices) {
  if (!flags.tp_devices.empty()) return static_cast<int64_t>(devices.size());
  return std::max<int64_t>(flags.tp, 1);
}

bool on_host(const DeviceFlags& flags) {
  if (!spreads(flags)) return flags.device == "cpu";
  const auto named = named_devices(flags);
  return named.ok() && std::count(named->names.begin(), named->names.end(), "cpu") ==
                           static_cast<ptrdiff_t>(named->names.size());
}

}  // namespace fulmar
