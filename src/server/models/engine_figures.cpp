#include "server/models/engine_figures.h"

#include <utility>

namespace fulmar {
namespace {

using Figure = int64_t EngineStats::*;
using PrefixFigure = int64_t PrefixCache::Counters::*;

constexpr Figure kCounters[] = {&EngineStats::requests_total,
                                &EngineStats::requests_completed,
                                &EngineStats::requests_rejected,
                                &EngineStats::requests_cancelled,
                                &EngineStats::steps,
                                &EngineStats::prompt_tokens,
                                &EngineStats::generated_tokens,
                                &EngineStats::forwarded_tokens,
                                &EngineStats::cached_tokens,
                                &EngineStats::session_hits_device,
                                &EngineStats::session_hits_host,
                                &EngineStats::session_hits_store,
                                &EngineStats::session_store_failures,
                                &EngineStats::session_turns_unconfirmed};
constexpr Figure kGauges[] = {&EngineStats::slots_total,     &EngineStats::slots_used,
                              &EngineStats::rows_waiting,    &EngineStats::rows_prefill,
                              &EngineStats::rows_decode,     &EngineStats::requests_waiting,
                              &EngineStats::device_sessions, &EngineStats::host_sessions};
constexpr PrefixFigure kPrefixCounters[] = {
    &PrefixCache::Counters::device_hits, &PrefixCache::Counters::host_hits, &PrefixCache::Counters::misses};
constexpr PrefixFigure kPrefixGauges[] = {&PrefixCache::Counters::device_entries,
                                          &PrefixCache::Counters::host_entries};

void add_counters(EngineStats& sum, const EngineStats& more) {
  for (const Figure figure : kCounters) sum.*figure += more.*figure;
  for (const PrefixFigure figure : kPrefixCounters) sum.prefixes.*figure += more.prefixes.*figure;
  for (size_t i = 0; i < sum.drafts.size(); ++i) {
    sum.drafts[i].drafted += more.drafts[i].drafted;
    sum.drafts[i].accepted += more.drafts[i].accepted;
  }
  const bool earlier = sum.start_time == 0 || more.start_time < sum.start_time;
  if (more.start_time != 0 && earlier) sum.start_time = more.start_time;
}

}  // namespace

EngineStats add_up(const EngineStats& a, const EngineStats& b) {
  EngineStats sum = a;
  add_counters(sum, b);
  for (const Figure figure : kGauges) sum.*figure += b.*figure;
  for (const PrefixFigure figure : kPrefixGauges) sum.prefixes.*figure += b.prefixes.*figure;
  sum.prefill_tokens_per_second += b.prefill_tokens_per_second;
  sum.decode_tokens_per_second += b.decode_tokens_per_second;
  sum.requests.insert(sum.requests.end(), b.requests.begin(), b.requests.end());
  sum.paused.insert(sum.paused.end(), b.paused.begin(), b.paused.end());
  for (SlotStatus slot : b.slots) {
    slot.id += a.slots_total;
    sum.slots.push_back(std::move(slot));
  }
  if (b.last_finished.created > a.last_finished.created || a.last_finished.id.empty()) {
    sum.last_finished = b.last_finished;
  }
  return sum;
}

EngineStats counters_of(const EngineStats& stats) {
  EngineStats counters;
  add_counters(counters, stats);
  return counters;
}

EngineStats leaving_figures(EngineStats stats) {
  stats.slots_total = stats.slots_used;
  std::erase_if(stats.slots, [](const SlotStatus& slot) { return slot.phase == SlotStatus::Phase::free; });
  for (size_t i = 0; i < stats.slots.size(); ++i) stats.slots[i].id = static_cast<int64_t>(i);
  return stats;
}

EngineStats hide_others(EngineStats stats, const Owner& owner) {
  const auto of_others = [&](const RequestStatus& request) { return !owner.sees(request.owner); };
  std::erase_if(stats.requests, of_others);
  std::erase_if(stats.paused, of_others);
  if (of_others(stats.last_finished)) stats.last_finished = {};
  for (SlotStatus& slot : stats.slots) {
    if (slot.phase == SlotStatus::Phase::free || owner.sees(slot.owner)) continue;
    slot = {.id = slot.id, .phase = slot.phase, .hidden = true};
  }
  return stats;
}

}  // namespace fulmar
