// The engine: one thread that owns the model, its slots and every sequence. Three doors lead in (submit,
// cancel, status); events lead out through Listeners. Continuous batching: requests join and leave at every
// step, prompts in chunks beside those that decode (chunked prefill).
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

// What speculative decoding drafts from, and how much.
struct SpeculationOptions {
  bool ngrams = false;           // earlier text of the row, or what its client has predicted
  Model* draft_model = nullptr;  // outlives the engine; its vocabulary is that of the engine's model
  Ops* draft_ops = nullptr;      // of the draft model
  int64_t most = 7;     // drafted tokens of a sequence and step, as far as states can be rolled back so far
  bool always = false;  // as many as there are, not as many as pay by measured times: for tests
};

struct EngineOptions {
  int64_t slots = 8;            // sequences that run at once
  int64_t prefill_chunk = 256;  // most prompt rows of one step: bounds the wait of running streams
  // Prompts are fed in pieces of so many tokens from their beginning, whatever else the steps feed, so that a
  // device whose bits depend on where a prompt is cut gives the same ones each time; 0: cut as it suits the
  // steps. Prompt beginnings are then kept at the ends of pieces alone.
  int64_t prompt_piece = 0;
  int64_t max_queue = 1000;  // requests waiting for their first slot
  // Rows that wait for a slot, and what they take of host memory; a request that finds nobody waiting is let
  // in whatever it takes.
  // Load shedding: requests beyond these are refused as unavailable.
  int64_t max_waiting_rows = 65536;
  int64_t max_waiting_bytes = int64_t{256} << 20;
  int64_t max_prompt_tokens = 0;  // of one row; 0: any number

  int64_t device_sessions = 16;  // session states kept in device slots of their own
  LadderOptions sessions;        // host level and write-back, of a ladder of the engine's own
  int64_t prefix_slots = 16;     // device slots for prompt beginnings; 0 and host_bytes 0: no prefix cache
  PrefixCacheOptions prefixes;
  // Prompt beginnings that one owner's requests have left also serve others': quicker, and how many tokens
  // were cached then tells what others have sent.
  bool share_prefixes = false;
  SpeculationOptions speculation;  // only as far as the backend's states can be rolled back
  // Begin a step before the tokens drawn in front of it are known (run_ahead.h); none: where the device
  // computes on its own. Rows that may have drafts go without.
  std::optional<bool> run_ahead;

  // Feed tokens that a row's mask forces without drawing them (next_token.h); else they are drawn as any
  // others, with the same answers: for tests.
  bool fast_forward = true;

  // Called once, on the engine's thread, when the device or that thread has failed, with the reason: every
  // row has had its last event, sessions that could be read were offered to the store, and nothing will run
  // any more.
  std::function<void(const std::string& why)> on_failure;
};

// Rows submitted together; they share one Listener and one request id.
struct Request {
  std::string owner;  // whose it is, and the sessions that its rows name
  std::vector<Ask> rows;
  std::shared_ptr<Listener> listener;
  std::string endpoint;    // for status pages: "chat.completions", ...
  std::string model;       // as the client named it
  bool resumable = false;  // a single-row stream that pause may suspend
};

class Engine {
 public:
  // The model, its devices and the tokenizer must outlive the engine. Starts the thread.
  // `sessions` may be shared with other engines on the same weights; null: a ladder of its own, in memory
  // only.
  static Result<std::unique_ptr<Engine>> start(Model& model, const Tokenizer& tokenizer,
                                               const EngineOptions& options,
                                               std::shared_ptr<SessionLadder> sessions);
  virtual ~Engine() = default;  // stops: running requests end as cancelled

  // From any thread. Fails at once with `unavailable` when the queue is full, the engine is draining or its
  // device has failed, and
  // with `invalid` for a row that breaks Ask's rules; no event is delivered then.
  virtual Status submit(Request request) = 0;

  // All functions that take an id take an owner with it: what that one does not see is unknown to them, and
  // sessions are that one's own (session_name.h).

  // Ends a request, waiting or running, behind the steps under way; false when it is unknown. Rows end as
  // `cancelled`; one that is over but for its turn's way to a shared store ends as it would have.
  virtual bool cancel(const Owner& owner, const std::string& request_id) = 0;
  // Ends every request that the owner sees; returns how many there were.
  virtual int64_t cancel_all(const Owner& owner) = 0;

  // Suspends a resumable request: its row ends as `stop` with paused set. An empty id means the newest.
  // Returns the id that was paused, or not_found.
  virtual Result<std::string> pause(const Owner& owner, const std::string& request_id) = 0;
  // Continues a paused request on another listener; max_tokens < 0 keeps what remained. One use only. A
  // conflict when its session has gone on since; one that was erased since is not written to. Blocks on the
  // session store.
  virtual Status resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                        std::shared_ptr<Listener> listener) = 0;

  // Refuses new requests from now on; calls `done` on the engine thread once nothing runs or waits.
  virtual void drain(std::function<void()> done) = 0;

  virtual EngineStats stats() const = 0;

  // ---- sessions; these block on the session store, and never on the engine but for erase_session within a
  // listener, which blocks on neither. An Error but those named below: the store cannot tell ----
  virtual Result<std::vector<SessionInfo>> sessions(const Owner& owner) = 0;
  // Engines that name the same one have the same sessions.
  virtual const SessionLadder* session_ladder() const = 0;
  virtual Result<bool> has_session(const Owner& owner, const std::string& id) = 0;
  // How many went, from within a listener those in memory. A row that has begun finishes but does not write
  // back, nor does a paused one: a session that it would have begun counts.
  virtual Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) = 0;
  virtual Result<StateBlob> export_session(const Owner& owner,
                                           const std::string& id) = 0;  // not_found when unknown
  // Replaces the session's state; refuses another model's, numbers that are not finite, and a session that is
  // running.
  virtual Status import_session(const Owner& owner, const std::string& id, const StateBlob& blob) = 0;
  // ---- tuned states; each call runs between two steps and waits for that ----
  // Of each layer [H, N, N], row = value channel.
  using StateNumbers = std::vector<std::vector<float>>;
  // By their names; an equal name is replaced. Where one cannot be added, none is, and all are as before.
  virtual Status add_states(const std::map<std::string, StateNumbers>& states) = 0;
  virtual bool remove_state(const std::string& name) = 0;
  virtual std::vector<std::string> states() = 0;
  virtual void clear_prefixes() = 0;
};

}  // namespace fulmar
