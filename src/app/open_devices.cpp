#include "app/open_devices.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <thread>

#include "base/log.h"
#include "cpu/cpu_ops.h"
#include "ops/device.h"

namespace fulmar {

namespace {

constexpr size_t kMostDevices = 64;
constexpr std::string_view kCuda = "cuda:";

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

DeviceOptions gpu_options(const DeviceFlags& flags) {
  DeviceOptions options;
  options.half_state = flags.state_dtype == "fp16";
  options.plain_products = flags.plain_products;
  options.panels = !flags.no_panels;
  return options;
}

Result<std::unique_ptr<Ops>> open_one(const DeviceFlags& flags) {
  const bool any = flags.device == "auto";
  if (any || flags.device.starts_with("cuda")) {
    DeviceOptions options = gpu_options(flags);
    if (flags.device.starts_with(kCuda)) {
      options.index = small_number(std::string_view(flags.device).substr(kCuda.size()));
      if (options.index < 0) {
        return Error{ErrorKind::invalid,
                     fmt::format("--device is '{}'; wanted cuda:N with a number N", flags.device)};
      }
    }
    auto opened = open_gpu(options);
    if (opened.ok() || !any) return opened;
    const bool none = list_gpus().empty();
    spdlog::log(none ? spdlog::level::debug : spdlog::level::warn, "running on the CPU: {}",
                opened.error().text);
  } else if (flags.device != "cpu") {
    return Error{ErrorKind::invalid,
                 fmt::format("--device is '{}'; wanted auto, cpu, cuda or cuda:N", flags.device)};
  }
  return make_cpu_ops({.threads = flags.threads});
}

// CPU stages share the threads that one would have.
Result<Devices> open_stages(const DeviceFlags& flags, const std::vector<std::string>& names) {
  const auto hosts = static_cast<int>(std::count(names.begin(), names.end(), "cpu"));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = flags.threads > 0 ? flags.threads : cores;
  Devices devices;
  for (const std::string& name : names) {
    if (name == "cpu") {
      devices.push_back(make_cpu_ops({.threads = std::max(1, threads / hosts)}));
      continue;
    }
    DeviceOptions options = gpu_options(flags);
    options.index = small_number(std::string_view(name).substr(kCuda.size()));
    auto opened = open_gpu(options);
    if (!opened.ok()) {
      return Error{opened.error().kind, fmt::format("--pp-devices names {}: {}", name, opened.error().text)};
    }
    devices.push_back(std::move(*opened));
  }
  return devices;
}

}  // namespace

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "auto, cpu, cuda or cuda:N")->capture_default_str();
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
  app.add_option("--threads", flags.threads, "CPU threads; 0 takes all cores")->capture_default_str();
  app.add_option("--state-dtype", flags.state_dtype,
                 "how states are kept between tokens on a GPU: fp32 or fp16")
      ->check(CLI::IsMember({"fp32", "fp16"}))
      ->capture_default_str();
  app.add_flag("--plain-products", flags.plain_products,
               "large products on a GPU without cuBLASLt, where it is missing or fails; slow");
  app.add_flag("--no-panels", flags.no_panels,
               "products on a GPU of compute capability 9.0 as on those before it; to time that");
}

Result<std::vector<std::string>> pipeline_devices(const std::string& list) {
  std::vector<std::string> names = parts_of(list);
  if (names.size() == 1 && names.front() == "auto") {
    names.clear();
    for (const GpuInfo& gpu : list_gpus()) names.push_back(fmt::format("cuda:{}", gpu.index));
    if (!names.empty()) return names;
    return Error{ErrorKind::unsupported, "--pp-devices is 'auto' and no GPU can be used"};
  }
  for (std::string& name : names) {
    if (small_number(name) >= 0) name = fmt::format("cuda:{}", small_number(name));
    const bool gpu =
        name.starts_with(kCuda) && small_number(std::string_view(name).substr(kCuda.size())) >= 0;
    if (gpu || name == "cpu") continue;
    return Error{
        ErrorKind::invalid,
        fmt::format("--pp-devices is '{}' and names '{}'; wanted auto, or numbers of GPUs, cuda:N or cpu "
                    "with commas between them",
                    list, name)};
  }
  if (names.size() <= kMostDevices) return names;
  return Error{ErrorKind::invalid,
               fmt::format("--pp-devices names {} devices; wanted at most {}", names.size(), kMostDevices)};
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

Result<Devices> open_devices(const DeviceFlags& flags) {
  if (!flags.pp_devices.empty()) {
    if (flags.device != "auto") {
      return Error{ErrorKind::invalid,
                   fmt::format("--device is '{}' and --pp-devices '{}'; wanted one of them", flags.device,
                               flags.pp_devices)};
    }
    FULMAR_ASSIGN(const auto names, pipeline_devices(flags.pp_devices));
    return open_stages(flags, names);
  }
  if (!flags.pp_split.empty()) {
    return Error{ErrorKind::invalid, fmt::format("--pp-split is '{}' without --pp-devices", flags.pp_split)};
  }
  FULMAR_ASSIGN(auto one, open_one(flags));
  Devices devices;
  devices.push_back(std::move(one));
  return devices;
}

bool on_host(const DeviceFlags& flags) {
  if (flags.pp_devices.empty()) return flags.device == "cpu";
  const auto names = pipeline_devices(flags.pp_devices);
  return names.ok() &&
         std::count(names->begin(), names->end(), "cpu") == static_cast<ptrdiff_t>(names->size());
}

}  // namespace fulmar
