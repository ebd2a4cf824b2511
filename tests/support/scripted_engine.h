// An Engine without a model: plays back scripts, one token per row and step, on a thread of its own.
// For tests of what lies above the engine. Depends on the engine's headers only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace fulmar::testing {

// What one row says.
struct Script {
  std::vector<std::string> pieces = {};  // one per token; whole UTF-8 characters
  FinishReason reason = FinishReason::stop;
  std::optional<int32_t> stop_id = {};
  std::optional<std::string> stop_text = {};
  std::optional<Error> error = {};     // with FinishReason::failed
  int64_t accepted = 0, rejected = 0;  // drafted tokens
};

class ScriptedEngine : public Engine {
 public:
  using Play = std::function<Script(const Ask&)>;

  explicit ScriptedEngine(Play play);
  ~ScriptedEngine() override;

  Status submit(Request request) override;
  bool cancel(const Owner& owner, const std::string& request_id) override;
  int64_t cancel_all(const Owner& owner) override;
  void stop_all() override;
  bool forget_paused(const Owner& owner, const std::string& request_id) override;
  Result<std::string> pause(const Owner& owner, const std::string& request_id) override;
  Status resume(const Owner& owner, const std::string& request_id, int64_t max_tokens,
                std::shared_ptr<Listener> listener) override;
  void drain(std::function<void()> done) override;
  EngineStats stats() const override;

  // Sessions are names only: a row that ends normally leaves its write_session behind.
  Result<std::vector<SessionInfo>> sessions(const Owner& owner) override;
  const SessionLadder* session_ladder() const override { return ladder_; }
  Result<bool> has_session(const Owner& owner, const std::string& id) override;
  Result<int64_t> erase_session(const Owner& owner, const std::string& id, bool and_branches) override;
  Result<StateBlob> export_session(const Owner& owner, const std::string& id) override;
  Status import_session(const Owner& owner, const std::string& id, const StateBlob& blob) override;
  Status add_states(const std::map<std::string, StateNumbers>& states) override;
  bool remove_state(const std::string& name) override;
  std::vector<std::string> states() override;
  void clear_prefixes() override {}
  Result<std::shared_ptr<const DeviceAdapter>> load_adapter(std::span<const HostDelta>) override {
    return std::make_shared<const DeviceAdapter>();
  }

  // The next submits are refused with this error; nothing ends that.
  void refuse(std::optional<Error> error);
  // Names only: what session_ladder() says from now on.
  void share_ladder(const SessionLadder* ladder) { ladder_ = ladder; }
  // Whether sessions cannot be erased from now on.
  void fail_erasing(bool fails) { erasing_fails_ = fails; }
  // What stats() say of the device from now on.
  void fail_device(const std::string& what) {
    std::lock_guard lock(mutex_);
    failure_ = what;
  }
  // Rows stop after so many tokens each, until told otherwise; -1: no limit. 0 also holds back admission.
  void hold_after(int64_t tokens);
  // Waits until nothing runs; false after ten seconds.
  bool wait_idle();

  // Every row submitted so far, in order.
  std::vector<Ask> asks() const;
  int64_t cancelled() const { return cancelled_; }

 private:
  struct Row {
    Ask ask;
    Script script;
    int64_t said = 0;
    bool admitted = false;
    bool finished = false;
  };
  struct Running {
    Request request;
    std::vector<Row> rows;
    std::optional<FinishReason> cut;
  };

  void loop();
  bool step();  // true when anything moved
  void advance(Running& running, Row& row, std::vector<Event>& events);

  const Play play_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Running> running_;
  std::list<Running> paused_;
  std::vector<Ask> asks_;
  std::set<std::string> sessions_;  // by session_text()
  std::set<std::string> states_;
  std::optional<Error> refusal_;
  std::string failure_;
  std::atomic<const SessionLadder*> ladder_ = nullptr;
  std::atomic<bool> erasing_fails_ = false;
  int64_t hold_ = -1;
  std::atomic<int64_t> cancelled_{0};
  int64_t submitted_ = 0;
  int64_t completed_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace fulmar::testing
