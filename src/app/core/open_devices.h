// Opens the devices that flags name: one, or several that share a model's layers.
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
  std::string pretend;              // sm80, simt: kernels of such cards; empty: the GPU's own
  int64_t defer = 0;  // states are written after every this many rows; 0: chosen by device and type
  // Rows of a sequence and step that may be rolled back, including the first; each takes memory for every
  // slot, on a GPU only if revocable_on_gpu.
  int64_t revocable = 0;
  bool revocable_on_gpu = false;
  bool deterministic = false;  // a sequence's bits do not depend on the rest of a step
  int threads = 0;             // of the CPU; 0: as many as the machine has
};

// Adds --devices, --tp, --split and the options that belong to them.
void add_device_flags(CLI::App& app, DeviceFlags& flags);
// Adds the options of how devices keep states.
void add_state_flags(CLI::App& app, DeviceFlags& flags);
// Shows an option in a command's help that is hidden in others'.
void show_option(CLI::App& app, const std::string& name);

// The GPUs that the program can use.
struct UsableGpus {
  std::string kind;  // "cuda" or "hip"
  int64_t count = 0;
};
UsableGpus usable_gpus();

// Returns the devices that the flags name, each as "auto" (the first GPU, else the CPU;
// always alone), "cpu", "cuda:N" or "hip:N". Invalid if a name is none of these, unsupported
// if there are fewer GPUs than wanted.
Result<std::vector<std::string>> device_names(const DeviceFlags& flags, const UsableGpus& gpus);
// Parses text like "10,22"; empty for empty text.
Result<std::vector<int64_t>> parse_split(const std::string& text);
// Fails for an activation that none of the devices knows.
Status check_activation(const std::string& activation, bool any_gpu, bool any_cpu);

// Returns whether the flags spread a model over several devices.
bool spreads(const DeviceFlags& flags);

std::chrono::milliseconds collective_timeout_of(const DeviceFlags& flags);

// At least one, in the order of the stages; the devices of a stage follow one another.
using Devices = std::vector<std::unique_ptr<Ops>>;
Result<Devices> open_devices(const DeviceFlags& flags);
// Returns how many of `devices` devices share each layer.
Result<int64_t> slices_of(const DeviceFlags& flags, size_t devices);
// Returns whether the flags name the CPU alone.
bool on_host(const DeviceFlags& flags);

}  // namespace fulmar
