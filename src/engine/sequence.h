// One timeline in the engine: its ask, where its state is, its output so far. Plain data; the engine thread
// owns it and the pure functions of drawn_token.h change it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/session_ladder.h"
#include "engine/ask.h"
#include "engine/event.h"
#include "engine/output_text.h"
#include "engine/row_drafts.h"
#include "engine/stats.h"

namespace fulmar {

// Shared by all rows of a request.
struct RequestRecord {
  std::string id;
  std::string owner;
  std::string endpoint;
  std::string model;
  std::shared_ptr<const AdapterLabel> adapter;  // AdapterUse::label
  bool resumable = false;
  std::shared_ptr<Listener> listener;  // reset with its last event
  int64_t created = 0;                 // unix seconds
  int64_t rows = 0;
  int64_t rows_remaining = 0;
  int64_t rows_admitted = 0;
  bool in_queue = true;                        // no row has had a slot yet
  std::vector<Event> outbox;                   // events of this step, delivered at its end
  RequestStatus ended_rows;                    // sums over ended rows
  std::shared_ptr<const void> held;            // of Request
  std::atomic<bool> cancel_requested = false;  // set from any thread, read by the engine between steps
  std::atomic<FinishReason> cut_as = FinishReason::cancelled;  // how it ends then
};

// How a row ended.
struct Finish {
  FinishReason reason = FinishReason::stop;
  std::optional<int32_t> stop_id;
  std::optional<std::string> stop_text;
  std::optional<Error> error;
  bool wrote_session = false;
};

// How far a running row's prompt has been fed; destroyed when the row leaves prefill.
struct PrefillProgress {
  size_t fed = 0;
};

// A copy of a session row's state from before a possible stop text, so that the session never contains part
// of one.
struct RewindPoint {
  size_t drawn_fed = 0;         // drawn tokens it contains
  int64_t slot = -1;            // on the device, or
  std::vector<std::byte> host;  // in host memory
};

// A row's hold on named sessions, from before its start until its turn is in the store.
struct SessionHold {
  SessionClaimPtr claim;                              // to write_session; kept by a paused row's record
  std::shared_ptr<SessionLookup> reading, writing;    // one object where both are one session
  int64_t turn = 0;                                   // of write_session, when the row began
  WriteTicket ticket;                                 // of the turn committed to a shared store
  std::chrono::steady_clock::time_point waits_until;  // for the ticket
};

struct Sequence {
  enum class Phase : uint8_t {
    prefill,  // prompt tokens are being fed
    decode,   // drawn tokens are to be fed: the last one, and earlier ones that were rolled back
    closing,  // ended; kept tokens are still to be fed before the session is committed
  };

  Ask ask;
  std::shared_ptr<RequestRecord> request;
  Phase phase = Phase::prefill;
  int64_t waiting_bytes = 0;  // counted in QueueRoom until the row gets its slot or ends
  int under_way = 0;          // steps that feed its tokens; until they end it does not change
  size_t begun = 0;           // of feed, after `fed`: in steps under way
  std::chrono::steady_clock::time_point fed_at;  // when the last step that fed it ended
  int64_t slot = -1;
  std::vector<int64_t> more_slots;  // of a mixture: slots of its members after the first

  std::vector<int32_t> feed;  // the tokens of prefill: the prompt, or `continuing`
  size_t fed = 0;             // of feed: fed, or restored from a snapshot
  int64_t tokens_before = 0;  // tokens that the session already held
  bool cacheable = false;     // the state depends on `feed` and the tuned state alone
  // positions of feed where the prefix cache wants a snapshot, ascending
  std::vector<size_t> snapshot_points;
  std::optional<RewindPoint> rewind_point;
  SessionHold session;

  std::vector<int32_t> drawn;  // kept tokens in order
  size_t drawn_fed = 0;        // how many of them the state contains
  RowDrafts drafts;
  PenaltyMemory memory;
  OutputText output;

  Usage usage;
  std::vector<TokenRecord> prompt_scores;
  std::vector<double> embedding_sum;
  std::optional<Finish> finish;
  int64_t waits_for_mask = 0;  // steps for which it was not fed because its mask was not ready

  double prefill_seconds = 0;
  double decode_seconds = 0;

  // Set while the row waits for another one that is about to compute a prefix of its prompt.
  std::weak_ptr<const PrefillProgress> follows;
  size_t follows_until = 0;
  std::shared_ptr<PrefillProgress> progress;  // of this row, for rows that follow it

  // Returns the next tokens to feed, oldest first.
  std::span<const int32_t> ready() const {
    if (phase == Phase::prefill) return std::span(feed).subspan(fed + begun);
    return std::span(drawn).subspan(drawn_fed);
  }
};

}  // namespace fulmar
