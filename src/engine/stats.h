// Counters, and a copy of what runs, published once per step.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/prefix_cache.h"

namespace fulmar {

struct AdapterLabel;

// The source of drafted tokens: earlier text of the row, its client's prediction, a draft model.
enum class DraftSource : uint8_t { ngram, prediction, model };
constexpr std::array<const char*, 3> kDraftSourceNames{"ngram", "prediction", "model"};

struct DraftCount {
  int64_t drafted = 0;   // tokens fed beyond the drawn ones
  int64_t accepted = 0;  // of them, tokens that would have been drawn
};
using DraftCounts = std::array<DraftCount, kDraftSourceNames.size()>;  // by DraftSource

// A request as status pages show it.
struct RequestStatus {
  std::string id;
  std::string owner;
  std::string endpoint;
  std::string model;
  int64_t created = 0;  // unix seconds
  int64_t rows = 0;
  int64_t prompt_tokens = 0;
  int64_t prefilled_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t max_tokens = 0;
  bool waiting = false;
  bool stop_requested = false;
  bool resumable = false;
  std::string session;                                    // as its client named it
  std::shared_ptr<const AdapterLabel> adapter = nullptr;  // AdapterUse::label
  double prefill_speed = 0;                               // tokens/s
  double decode_speed = 0;
};

struct SlotStatus {
  enum class Phase : uint8_t { free, prefill, decode, closing };
  int64_t id = 0;
  Phase phase = Phase::free;
  std::string request_id, owner;  // of the request
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  std::shared_ptr<const AdapterLabel> adapter = nullptr;  // AdapterUse::label
  bool hidden = false;                                    // another owner's: only told to be in use
};

struct EngineStats {
  int64_t slots_total = 0;
  int64_t slots_used = 0;
  int64_t rows_waiting = 0;
  int64_t rows_prefill = 0;
  int64_t rows_decode = 0;
  int64_t requests_waiting = 0;

  int64_t requests_total = 0;
  int64_t requests_completed = 0;
  int64_t requests_rejected = 0;
  int64_t requests_cancelled = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;             // fed
  int64_t generated_tokens = 0;          // drawn
  int64_t forwarded_tokens = 0;          // of those drawn, forced by a mask and fed without asking the model
  int64_t cached_tokens = 0;             // not fed thanks to a snapshot
  double prefill_tokens_per_second = 0;  // over the last second or so
  double decode_tokens_per_second = 0;
  int64_t start_time = 0;  // unix seconds
  DraftCounts drafts;

  int64_t device_sessions = 0, host_sessions = 0;
  int64_t session_hits_device = 0, session_hits_host = 0, session_hits_store = 0;
  int64_t session_store_failures = 0;
  int64_t session_turns_unconfirmed = 0;  // answered before the shared store had them
  PrefixCache::Counters prefixes;

  std::string failure;  // why the engine has stopped; empty: it runs

  std::vector<RequestStatus> requests;  // waiting and running, oldest first
  std::vector<RequestStatus> paused;
  std::vector<SlotStatus> slots;
  RequestStatus last_finished;  // id empty: none yet
};

}  // namespace fulmar
