// Flags of the servers that this one replaces, where they mean nothing here or something of another form, so
// that start scripts need no change.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace CLI {
class App;
}

namespace fulmar {

struct AcceptedFlags {
  std::string pp_devices;  // "[0,1]": the layers of one model over several GPUs
  bool debug = false;
  // What follows is read and has no effect.
  int64_t max_prefill_batch = 0, max_seq_len = 0, workers = 0, state_cache_size = 0;
  std::string state_cache_store;
  bool use_cuda_graph = false, wkv32 = false, chunk_load = false;
};

void add_accepted_flags(CLI::App& app, AcceptedFlags& flags);

// The device that they name, in the form of --device; empty: none. Fails (unsupported) for more than one.
Result<std::string> named_device(const AcceptedFlags& flags);

}  // namespace fulmar
