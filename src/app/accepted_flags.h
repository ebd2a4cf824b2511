// Flags of the servers that this one replaces, where they mean nothing here, so that start scripts need no
// change.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace fulmar {

struct AcceptedFlags {
  bool debug = false;
  // What follows is read and has no effect.
  int64_t max_prefill_batch = 0, max_seq_len = 0, workers = 0, state_cache_size = 0;
  std::string state_cache_store;
  bool use_cuda_graph = false, wkv32 = false, chunk_load = false;
};

void add_accepted_flags(CLI::App& app, AcceptedFlags& flags);

}  // namespace fulmar
