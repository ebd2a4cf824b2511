// From the flags that name devices to open ones: one, or several that share a model's layers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"

namespace CLI {
class App;
}

namespace fulmar {

struct DeviceFlags {
  std::string devices = "auto";    // auto, all, or names with commas between, in the order of the stages
  std::string tp = "1";            // how many of them share each layer (tensor parallelism), or all
  std::string split;               // layers of each stage; empty: by memory and speed
  int64_t pp_steps = 0;            // steps under way at once; 0: as many as there are stages
  double collective_timeout = 30;  // seconds that a device of a stage waits for the others
  std::string state_dtype = "fp32";
  std::string activation = "auto";  // fp16, bf16, fp8 of a GPU; int22, int15, int8 of a CPU
  std::string pretend;              // sm80, simt: a GPU's products as on such cards; empty: as they are
  int64_t defer = 0;  // states are written behind every so many rows; 0: what suits device and type
  // Rows of a sequence and step that may be rolled back, the first counted in; each takes memory beside every
  // slot, on a GPU only where that is said.
  int64_t revocable = 0;
  bool revocable_on_gpu = false;
  bool deterministic = false;  // a sequence's bits do not depend on what else is in a step
  int threads = 0;             // of the CPU; 0: as many as the machine has
};

// Adds --devices, --tp, --split and what belongs to them.
void add_device_flags(CLI::App& app, DeviceFlags& flags);
// Adds how the devices keep states.
void add_state_flags(CLI::App& app, DeviceFlags& flags);
// Shows an option in the help of a command, which is hidden in others.
void show_option(CLI::App& app, const std::string& name);

// The GPUs that the program can use.
struct UsableGpus {
  std::string kind;  // "cuda" or "hip"
  int64_t count = 0;
};
UsableGpus usable_gpus();

// Returns the devices that the flags name, each as "auto" (the first GPU, else the CPU; it stands alone),
// "cpu", "cuda:N" or "hip:N". Invalid where a name is none of these, unsupported where there are fewer GPUs
// than wanted.
Result<std::vector<std::string>> device_names(const DeviceFlags& flags, const UsableGpus& gpus);
// "10,22"; empty for empty text.
Result<std::vector<int64_t>> parse_split(const std::string& text);
// Refuses an activation that none of the devices knows.
Status check_activation(const std::string& activation, bool any_gpu, bool any_cpu);

// Whether the flags spread a model over several devices.
bool spreads(const DeviceFlags& flags);

std::chrono::milliseconds collective_timeout_of(const DeviceFlags& flags);

// At least one, in the order of the stages, the devices of a stage one after the other.
using Devices = std::vector<std::unique_ptr<Ops>>;
Result<Devices> open_devices(const DeviceFlags& flags);
// How many of a number of devices share each layer.
Result<int64_t> slices_of(const DeviceFlags& flags, size_t devices);
// Whether the flags name the CPU alone.
bool on_host(const DeviceFlags& flags);

}  // namespace fulmar
