#include "app/accepted_flags.h"

#include <CLI/CLI.hpp>

namespace fulmar {

void add_accepted_flags(CLI::App& app, AcceptedFlags& flags) {
  const auto no_effect = [&](const char* names, auto& value, const char* why) {
    const std::string text = std::string("without effect: ") + why;
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
      return app.add_flag(names, value, text)->group("Accepted from other servers' start scripts");
    } else {
      return app.add_option(names, value, text)->group("Accepted from other servers' start scripts");
    }
  };
  no_effect("--max-prefill-batch", flags.max_prefill_batch,
            "a step's prefill is bounded in tokens, by --prefill-chunk");
  no_effect("--use-cuda-graph", flags.use_cuda_graph, "the backend records its steps where that pays");
  no_effect("--max_seq_len", flags.max_seq_len, "a recurrent state has no length");
  no_effect("--workers", flags.workers, "one process serves; `fulmar control` runs several");
  no_effect("--dynamic_state_cache_size", flags.state_cache_size,
            "prompt beginnings are bounded in memory, by --prefix-slots and --prefix-host-mib");
  no_effect("--dynamic_state_cache_store", flags.state_cache_store, "both device and host memory are used")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  no_effect("--wkv32", flags.wkv32, "states are f32 unless --state-dtype says otherwise");
  no_effect("--chunk-load", flags.chunk_load, "weights are always read in pieces");
  app.add_flag("--debug", flags.debug, "log more")->group("Accepted from other servers' start scripts");
}

}  // namespace fulmar
