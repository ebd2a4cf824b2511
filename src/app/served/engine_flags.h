// The settings of a served model's engine, and the options of `fulmar serve` for them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/core/variables.h"
#include "app/served/engine_bounds.h"
#include "app/served/session_ladders.h"
#include "base/result.h"

namespace CLI {
class App;
}

namespace fulmar {

struct ServeEngineFlags {
  int64_t slots = 0;          // 0: chosen from the memory that is free
  int64_t prefill_chunk = 0;  // 0: by device
  int64_t max_queue = 1000;
  std::optional<int64_t> max_waiting_rows, max_waiting_mib;  // nothing: they follow from max_queue
  int64_t max_prompt_tokens = 0;                             // of a row; 0: any number
  CacheFlags cache;
  SessionFlags sessions;
  bool share_prefixes = false;
  std::string speculate = "auto";       // auto, off, ngram, model
  std::string draft_model;              // drafts for the served one; empty: none
  int64_t speculate_most = 7;           // drafted tokens of a sequence and step
  std::string think_template = "auto";  // auto, g1, none
  std::string eos_id;                   // empty: the vocabulary's own; "none"; a number

  // Called on an engine's thread when its device has failed; that engine runs no more steps.
  std::function<void(const std::string& why)> on_failure;
};

void add_engine_flags(CLI::App& app, ServeEngineFlags& flags);

// Fails for two spellings of one budget, for --speculate without its source of drafts, and for a draft model
// that would not be used.
Status check_engine_flags(const ServeEngineFlags& flags);

}  // namespace fulmar
