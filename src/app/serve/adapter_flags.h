// The options of `fulmar serve` that concern adapters, and registering those that they name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/adapter_flag.h"
#include "base/result.h"
#include "server/server.h"

namespace CLI {
class App;
}

namespace fulmar {

struct ServeAdapterFlags {
  std::vector<std::string> adapters;  // NAME=PATH[,alpha=A][,scale=S]
  std::vector<std::string> modules;   // vLLM's: NAME=PATH, or JSON
  std::vector<std::string> loras;     // llama.cpp's: files, at the global scale 1
  std::vector<std::string> scaled;    // likewise, each with its scale behind it
  bool not_applied = false;           // the last two at scale 0
  int64_t host_mib = 1024, device_mib = 512;
  AdapterLimits limits;
};

// An adapter of the command line.
struct StartAdapter : AdapterFlag {
  std::string base;         // id of its model; empty: the first that it fits
  double global_scale = 0;  // for requests that name no adapter
};

void add_adapter_flags(CLI::App& app, ServeAdapterFlags& flags);

// Returns the adapters that the flags name, in the order of the options' list. Errors (invalid) name the text
// at fault, and a name that two of them have.
Result<std::vector<StartAdapter>> start_adapters(const ServeAdapterFlags& flags);

AdapterLimits adapter_limits(const ServeAdapterFlags& flags);

// Registers adapters for everybody, once their model is served. Fails with the first that cannot be.
Status register_at_start(AdapterRegistry& registry, const std::vector<StartAdapter>& adapters);

}  // namespace fulmar
