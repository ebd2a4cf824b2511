// The engine: one thread that owns the model, its slots and every sequence. Three doors lead in (submit,
// cancel, status); events lead out through Listeners. Continuous batching: requests join and leave at every
// step, prompts are fed in chunks beside decoding rows (chunked prefill).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/owner.h"
#include "base/result.h"
#include "cache/prefix_cache.h"
#include "cache/session_ladder.h"
#include "engine/ask.h"
#include "engine/event.h"
#include "engine/stats.h"

namespace fulmar {

class Model;
class Ops;
class Tokenizer;

// Where drafts come from in speculative decoding, and how many there are.
struct SpeculationOptions {
  bool ngrams = false;           // drafts from earlier text of the row, or from its client's prediction
  Model* draft_model = nullptr;  // outlives the engine; same vocabulary as the engine's model
  Ops* draft_ops = nullptr;      // of the draft model
  int64_t most = 7;              // drafted tokens per sequence and step, as far as states can be rolled back
  bool always = false;           // as many as there are, not as many as pay by measured times: for tests
};

struct EngineOptions {
  int64_t slots = 8;            // sequences that run at once
  int64_t prefill_chunk = 256;  // most prompt rows of a step: bounds the time that running streams wait
  // Feeds prompts in pieces of this many tokens from their beginning, whatever else the steps feed, so that a
  // device whose bits depend on where a prompt is cut gives the same ones each time. Prefix snapshots are
  // then taken at ends of pieces alone. 0: cut as it suits the steps.
  int64_t prompt_piece = 0;
  int64_t max_queue = 1000;  // requests waiting for their first slot
  // Limits on rows waiting for a slot and on their bytes of host memory; beyond them requests are refused as
  // unavailable (load shedding), unless nobody waits.
  int64_t max_waiting_rows = 65536;
  int64_t max_waiting_bytes = int64_t{256} << 20;
  int64_t max_prompt_tokens = 0;  // of one row; 0: any number

  int64_t device_sessions = 16;  // session states in device slots of their own
  LadderOptions sessions;        // host tier and write-behind, for a ladder of the engine's own
  int64_t prefix_slots = 16;     // device slots for prefix snapshots; 0 and host_bytes 0: no prefix cache
  PrefixCacheOptions prefixes;
  // Prefix snapshots of one owner's requests also serve other owners': faster, but the number of cached
  // tokens then tells what others have sent.
  bool share_prefixes = false;
  SpeculationOptions speculation;  // only as far as the backend's states can be rolled back
  // Begin a step before the previous step's tokens are known (run_ahead.h); nothing: on asynchronous devices.
  // Rows that may have drafts are excluded.
  std::optional<bool> run_ahead;

  // Feed tokens that a row's mask forces without drawing them (next_token.h). The answers are the same
  // without, for tests.
  bool fast_forward = true;

  // Called once, on the engine's thread, when the device or that thread has failed, with the reason. By then
  // every row has had its last event, readable sessions were offered to the store, and no step will run any
  // more.
  std::function<void(const std::string& why)> on_failure;
};

// Rows submitted together; they share one Listener and one request id.
struct Request {
  std::string owner;  // of the request, and of the sessions that its rows name
  std::vector<Ask> rows;
  std::shared_ptr<Listener> listener;
  std::string endpoint;    // for status pages: "chat.completions", ...
  std::string model;       // as the client named it
  bool resumable = false;  // a single-row stream that pause() may suspend
  // Kept until the request has ended and cannot be resumed any more.
  std::shared_ptr<const void> held = nullptr;
};

class Engine {
 public:
  // Starts an engine and its thread. The model, its devices and the tokenizer must outlive it. `sessions` may
  // be shared with other engines on the same weights; null: a ladder of its own, in memory only.
  static Result<std::unique_ptr<Engine>> start(Model& model, const Tokenizer& tokenizer,
                                               const EngineOptions& options,
                                               std::shared_ptr<SessionLadder> sessions);
  virtual ~Engine() = default;  // stops: running requests end as stopping

  // Submits a request, from any thread. Fails at once, without any event: `unavailable` when the queue is
  // full, the engine is draining or its device has failed; `invalid` for a row that breaks Ask's rules.
  virtual Status submit(Request request) = 0;

  // Functions that take an id also take an owner: requests that the owner may not see are unknown to it, and
  // sessions are the owner's own (session_name.h).

  // Ends a waiting or running request after the steps under way; returns false when it is unknown. Rows end
  // as `cancelled`; one that has ended and only waits for a shared store ends as it would have.
  virtual bool cancel(const Owner& owner, const std::string& request_id) = 0;
  // Ends every request that the owner sees; returns their number.
  virtual int64_t cancel_all(const Owner& owner) = 0;
  // Ends every request as `stopping`, because the server ends.
  virtual void stop_all() = 0;

  // Suspends a resumable request: its row ends as `paused`. An empty id means the newest. Returns the id that
  // was paused. Errors: not_found, and resource where too many are paused already.
  virtual Result<std::string> pause(const Owner& owner, const std::string& request_id) = 0;
  // Continues a paused request, once, on another listener; max_tokens < 0 keeps what remained. Fails with
  // conflict when its session has advanced since; a session erased since is not written to. Blocks on the
  // session store.
  virtual Status resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                        std::shared_ptr<Listener> listener) = 0;

  // Forgets a paused request; false where none has that id.
  virtual bool forget_paused(const Owner& owner, const std::string& request_id) = 0;

  // Refuses new requests from now on; calls `done` on the engine thread once nothing runs or waits.
  virtual void drain(std::function<void()> done) = 0;

  virtual EngineStats stats() const = 0;

  // ---- sessions: these block on the session store, never on the engine; within a listener erase_session
  // blocks on neither. Errors other than those named below mean that the store failed ----

  virtual Result<std::vector<SessionInfo>> sessions(const Owner& owner) = 0;
  // Returns the ladder; engines with the same one have the same sessions.
  virtual const SessionLadder* session_ladder() const = 0;
  virtual Result<bool> has_session(const Owner& owner, const std::string& id) = 0;
  // Erases a session; returns how many went, within a listener those in memory. Running rows finish but do
  // not write back, nor do paused ones; a session that such a row would have created counts.
  virtual Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) = 0;
  virtual Result<StateBlob> export_session(const Owner& owner,
                                           const std::string& id) = 0;  // not_found when unknown
  // Replaces the session's state. Fails for another model's state, numbers that are not finite, and a running
  // session.
  virtual Status import_session(const Owner& owner, const std::string& id, const StateBlob& blob) = 0;
  // ---- tuned states; each call runs between two steps and waits for that ----
  // Per layer [H, N, N], row = value channel.
  using StateNumbers = std::vector<std::vector<float>>;
  // Adds states by name, replacing equal names. If one cannot be added, none is, and all are as before.
  virtual Status add_states(const std::map<std::string, StateNumbers>& states) = 0;
  virtual bool remove_state(const std::string& name) = 0;
  virtual std::vector<std::string> states() = 0;
  virtual void clear_prefixes() = 0;

  // Copies an adapter's changes to the model's devices, between two steps, for AdapterUse of this engine's
  // rows. Fails as Model::load_adapter does.
  virtual Result<std::shared_ptr<const DeviceAdapter>> load_adapter(std::span<const HostDelta> deltas) = 0;
};

}  // namespace fulmar
