#include "app/core/open_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "app/core/option_checks.h"
#include "base/log.h"
#include "base/user_folder.h"
#include "cpu/cpu_ops.h"
#include "ops/device.h"

namespace fulmar {

namespace {

// Rows after which a GPU writes f32 states by default, where decoding many sequences was quickest.
constexpr int64_t kDeferOnGpu = 4;
constexpr size_t kMostDevices = 64;
constexpr int kMostThreads = 1024;
constexpr std::string_view kKinds[] = {"cuda", "hip"};
constexpr const char* kWanted =
    "auto, all, or numbers of GPUs, cuda:N, hip:N or cpu with commas between them";
constexpr std::string_view kOfGpus[] = {"fp16", "bf16", "fp8"}, kOfCpus[] = {"int22", "int15", "int8"};

// Returns a number of at most three digits; -1: not one.
int small_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && text.size() <= 3 ? number : -1;
}

// Returns the parts between commas, without blanks and without brackets around all of them.
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
          .activation_bits = flags.activation == "int8"    ? 8
                             : flags.activation == "int15" ? 15
                                                           : 22};
}

DeviceOptions gpu_options(const DeviceFlags& flags) {
  DeviceOptions options;
  options.half_state = flags.state_dtype == "fp16";
  options.activation = flags.activation == "bf16" ? DType::bf16 : DType::f16;
  options.float8_inputs = flags.activation == "fp8";
  options.deterministic = flags.deterministic;
  options.panels = flags.pretend != "sm80";
  options.matrix_units = flags.pretend != "simt";
  const auto cache = user_folder("XDG_CACHE_HOME", ".cache");
  if (cache && cache->is_absolute()) options.gemm_choices = *cache / "gemm-choices.txt";
  options.state_writes = {.every = flags.defer > 0      ? flags.defer
                                   : options.half_state ? 1
                                                        : kDeferOnGpu,
                          .revocable = flags.revocable_on_gpu ? flags.revocable : 0};
  return options;
}

// The GPU of either kind that a name means, "cuda" being the first; nothing for another name.
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

// Opens the first GPU, else the CPU.
std::unique_ptr<Ops> open_any(const DeviceFlags& flags) {
  auto opened = open_named(gpu_options(flags), GpuName{gpu_kind(), 0});
  if (opened.ok()) return std::move(*opened);
  const bool none = list_gpus().empty();
  spdlog::log(none ? spdlog::level::debug : spdlog::level::warn, "running on the CPU: {}",
              opened.error().text);
  return make_cpu_ops(host_options(flags, flags.threads));
}

// Returns the first `count` GPUs; all if count is 0.
Result<std::vector<std::string>> first_gpus(int64_t count, const std::string& wanted,
                                            const UsableGpus& gpus) {
  if (gpus.count < std::max<int64_t>(count, 1)) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}; this machine has {} GPUs that can be used", wanted, gpus.count)};
  }
  std::vector<std::string> names;
  for (int64_t i = 0; i < (count > 0 ? count : gpus.count); i++)
    names.push_back(fmt::format("{}:{}", gpus.kind, i));
  return names;
}

// Returns the full name of a device; empty: unknown.
std::string full_name(const std::string& name, const UsableGpus& gpus) {
  if (name == "cpu") return name;
  if (const int number = small_number(name); number >= 0)
    return fmt::format("{}:{}", gpus.kind.empty() ? "cuda" : gpus.kind, number);
  const auto gpu = gpu_name(name);
  return gpu ? fmt::format("{}:{}", gpu->kind, gpu->index) : std::string();
}

// Returns the number of --tp; 0 stands for all.
Result<int64_t> tensor_parallel(const std::string& tp) {
  if (tp == "all") return int64_t{0};
  const int number = small_number(tp);
  if (number >= 1 && number <= static_cast<int>(kMostDevices)) return int64_t{number};
  return Error{ErrorKind::invalid, fmt::format("--tp is '{}'; wanted all or 1 to {}", tp, kMostDevices)};
}

// Opens all devices. CPU devices divide the threads that one would have.
Result<Devices> open_all(const DeviceFlags& flags, const std::vector<std::string>& names) {
  Devices devices;
  if (names.front() == "auto") {
    devices.push_back(open_any(flags));
    return devices;
  }
  const auto hosts = static_cast<int>(std::count(names.begin(), names.end(), "cpu"));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = flags.threads > 0 || names.size() == 1 ? flags.threads : cores;
  for (const std::string& name : names) {
    if (name == "cpu") {
      const int share = hosts > 1 ? std::max(1, threads / hosts) : threads;
      devices.push_back(make_cpu_ops(host_options(flags, share)));
      continue;
    }
    auto opened = open_named(gpu_options(flags), *gpu_name(name));
    if (!opened.ok()) {
      return Error{opened.error().kind, fmt::format("--devices names {}: {}", name, opened.error().text)};
    }
    devices.push_back(std::move(*opened));
  }
  return devices;
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--devices", flags.devices,
                 "auto (the first GPU, else the CPU), all (every GPU), cpu, or a list such as 0,1, which "
                 "share the layers")
      ->capture_default_str();
  app.add_option("--tp", flags.tp,
                 "how many devices compute each layer together (tensor parallelism), or all")
      ->capture_default_str();
  app.add_option("--split", flags.split,
                 "layers of each device of the list, such as 10,22; default: by memory and speed");
  app.add_option("--pp-steps", flags.pp_steps,
                 "steps under way at once in a pipeline; 0: one for each device")
      ->check(whole(0, 256))
      ->capture_default_str()
      ->group("");
  app.add_option("--collective-timeout", flags.collective_timeout,
                 "seconds that a tensor-parallel device waits for the others before it gives up")
      ->check(within(0.1, 3600.0))
      ->capture_default_str()
      ->group("");
  app.add_option("--threads", flags.threads, "CPU threads; 0 takes all cores")
      ->check(whole(0, kMostThreads))
      ->capture_default_str();
  app.add_option("--activation", flags.activation,
                 "rounding before products: fp16, bf16, fp8 of a GPU; int22, int15, int8 of a CPU, from "
                 "exact to quick")
      ->check(CLI::IsMember({"auto", "fp16", "bf16", "fp8", "int22", "int15", "int8"}))
      ->capture_default_str();
  app.add_flag("--deterministic", flags.deterministic,
               "the same tokens for a request whatever else is computed with it (batch-invariant); slower");
  app.add_option("--pretend", flags.pretend,
                 "kernels of other cards: sm80, as without warpgroups; simt, as without matrix units")
      ->check(CLI::IsMember({"sm80", "simt"}))
      ->group("");
}

void add_state_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--state-dtype", flags.state_dtype, "how a GPU keeps states between tokens")
      ->check(CLI::IsMember({"fp32", "fp16"}))
      ->capture_default_str();
  app.add_option(
         "--defer-state-writes", flags.defer,
         "write states after every M-th token only, 1 to 16; auto: 4 for fp32 states on a GPU, else 1")
      ->transform(CLI::Transformer(std::map<std::string, std::string>{{"auto", "0"}}).description(""))
      ->check(whole(0, kMostDeferred))
      ->default_str("auto")
      ->group("");
}

void show_option(CLI::App& app, const std::string& name) { app.get_option(name)->group("Options"); }

UsableGpus usable_gpus() { return {std::string(gpu_kind()), static_cast<int64_t>(list_gpus().size())}; }

Result<std::vector<std::string>> device_names(const DeviceFlags& flags, const UsableGpus& gpus) {
  FULMAR_ASSIGN(const int64_t tp, tensor_parallel(flags.tp));
  std::vector<std::string> names = parts_of(flags.devices);
  const bool one = names.size() == 1;
  if (one && names.front() == "auto" && tp == 1) return names;
  if (one && names.front() == "auto") return first_gpus(tp, "--tp is " + flags.tp, gpus);
  if (one && names.front() == "all") return first_gpus(0, "--devices is 'all'", gpus);
  for (std::string& name : names) {
    std::string full = full_name(name, gpus);
    if (full.empty()) {
      return Error{ErrorKind::invalid,
                   fmt::format("--devices is '{}' and names '{}'; wanted {}", flags.devices, name, kWanted)};
    }
    name = std::move(full);
  }
  if (one && names.front() == "cpu" && tp > 1)
    return std::vector<std::string>(static_cast<size_t>(tp), "cpu");
  if (names.size() <= kMostDevices) return names;
  return Error{ErrorKind::invalid,
               fmt::format("--devices names {} devices; wanted at most {}", names.size(), kMostDevices)};
}

Status check_activation(const std::string& activation, bool any_gpu, bool any_cpu) {
  const bool of_gpu = is_one_of(kOfGpus, activation), of_cpu = is_one_of(kOfCpus, activation);
  if ((!of_gpu || any_gpu) && (!of_cpu || any_cpu)) return {};
  return Error{ErrorKind::invalid,
               fmt::format("--activation is '{}', which is for a {}, and there is none among the devices; "
                           "wanted auto, {}",
                           activation, of_gpu ? "GPU" : "CPU",
                           of_gpu ? fmt::join(kOfCpus, ", ") : fmt::join(kOfGpus, ", "))};
}

Result<std::vector<int64_t>> parse_split(const std::string& text) {
  std::vector<int64_t> counts;
  if (text.empty()) return counts;
  for (const std::string& part : parts_of(text)) {
    counts.push_back(small_number(part));
    if (counts.back() >= 1) continue;
    return Error{ErrorKind::invalid,
                 fmt::format("--split is '{}'; wanted numbers of layers such as 10,22", text)};
  }
  return counts;
}

bool spreads(const DeviceFlags& flags) {
  const auto names = device_names(flags, usable_gpus());
  return names.ok() && names->size() > 1;
}

std::chrono::milliseconds collective_timeout_of(const DeviceFlags& flags) {
  return std::chrono::milliseconds(static_cast<int64_t>(flags.collective_timeout * 1000));
}

Result<Devices> open_devices(const DeviceFlags& flags) {
  FULMAR_ASSIGN(const auto names, device_names(flags, usable_gpus()));
  if (names.size() == 1 && !flags.split.empty()) {
    return Error{ErrorKind::invalid, fmt::format("--split is '{}' and --devices '{}', which is one device",
                                                 flags.split, flags.devices)};
  }
  FULMAR_ASSIGN(Devices devices, open_all(flags, names));
  const auto gpus = std::count_if(devices.begin(), devices.end(), [](const std::unique_ptr<Ops>& device) {
    return device->traits().gpu.has_value();
  });
  const auto all = static_cast<ptrdiff_t>(devices.size());
  FULMAR_TRY(check_activation(flags.activation, gpus > 0, gpus < all));
  return devices;
}

Result<int64_t> slices_of(const DeviceFlags& flags, size_t devices) {
  FULMAR_ASSIGN(const int64_t tp, tensor_parallel(flags.tp));
  return tp == 0 ? static_cast<int64_t>(devices) : tp;
}

bool on_host(const DeviceFlags& flags) {
  const auto names = device_names(flags, usable_gpus());
  return names.ok() &&
         std::all_of(names->begin(), names->end(), [](const auto& name) { return name == "cpu"; });
}

}  // namespace fulmar
