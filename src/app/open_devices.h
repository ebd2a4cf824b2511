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
  std::string device = "auto";     // auto, cpu, cuda, cuda:N, hip, hip:N
  std::string pp_devices;          // of a pipeline, in the order of its stages; empty: `device` alone
  std::string pp_split;            // layers of each; empty: by memory and speed
  int64_t pp_steps = 0;            // under way at once; 0: as many as there are stages
  std::string tp_devices;          // that share every layer (tensor parallelism); empty: none do
  int64_t tp = 0;                  // so many GPUs do, or so many of pp_devices each; 0: none, or tp_devices
  double collective_timeout = 30;  // seconds that one of them waits for the others
  std::string state_dtype = "fp32";
  std::string activation = "fp16";         // of a GPU, and the type that its 16-bit weights are imported into
  std::string coded_activation = "int22";  // of the CPU, in front of quantised weights
  int64_t defer = 0;  // states are written behind every so many rows; 0: what suits device and type
  // Rows of a sequence and step that may be rolled back, the first counted in; each takes memory beside every
  // slot, on a GPU only where that is said.
  int64_t revocable = 0;
  bool revocable_on_gpu = false;
  bool deterministic = false;    // a sequence's bits do not depend on what else is in a step
  bool plain_products = false;   // of a GPU: without its vendor's library
  bool no_panels = false;        // of a GPU of compute capability 9.0: products as on those before it
  bool no_matrix_units = false;  // of a GPU: as on those whose matrix units the kernels do not know
  int threads = 0;               // of the CPU; 0: as many as the machine has
};

// Adds --device, --pp-devices, --tp-devices and what belongs to them.
void add_device_flags(CLI::App& app, DeviceFlags& flags);

// The names behind a list of devices: "[0,1]" or "0,1" are "cuda:0" and "cuda:1"; cuda:N and cpu stay as they
// are; "auto" is every GPU there is. Invalid where it is none of these; `flag` is for the error.
Result<std::vector<std::string>> device_list(const std::string& flag, const std::string& list);
// "10,22"; empty for empty text.
Result<std::vector<int64_t>> parse_split(const std::string& text);

// Whether the flags spread a model over several devices, in either form.
bool spreads(const DeviceFlags& flags);

std::chrono::milliseconds collective_timeout_of(const DeviceFlags& flags);

// At least one, in the order of the stages, the ranks of a stage one behind the other.
using Devices = std::vector<std::unique_ptr<Ops>>;
Result<Devices> open_devices(const DeviceFlags& flags);
// How many of so many devices share each layer.
int64_t slices_of(const DeviceFlags& flags, const Devices& devices);
// Whether the flags name the CPU alone.
bool on_host(const DeviceFlags& flags);

}  // namespace fulmar
