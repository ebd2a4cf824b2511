// The engine's thread and its doors. Everything below `thread side` is touched by the engine thread only.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/mailbox.h"
#include "engine/engine.h"
#include "engine/sequence.h"
#include "engine/speed_meter.h"
#include "engine/step_runner.h"
#include "model/state_pool.h"

namespace fulmar {

class EngineLoop final : public Engine {
 public:
  EngineLoop(Model& model, Ops& ops, const Tokenizer& tokenizer, const EngineOptions& options,
             StatePool pool);
  ~EngineLoop() override;

  Status submit(Request request) override;
  bool cancel(const std::string& request_id) override;
  int64_t cancel_all() override;
  Result<std::string> pause(const std::string& request_id) override;
  Status resume(const std::string& request_id, int64_t max_tokens,
                std::shared_ptr<Listener> listener) override;
  void drain(std::function<void()> done) override;
  EngineStats stats() const override;
  void run_between_steps(const std::function<void()>& task) override;

 private:
  using SequencePtr = std::unique_ptr<Sequence>;
  struct Paused {
    SequencePtr sequence;
    std::vector<std::byte> state;
  };

  // ---- doors, any thread
  Status check(const Ask& ask) const;
  void call_on_engine(std::function<void()> task);

  // ---- thread side
  void run();
  void step();
  void obey_cancels();
  void admit();
  void start_row(Sequence& sequence);
  void leave_queue(RequestRecord& request);
  void settle(std::span<const StepPart> parts, StepRunner::Outcome outcome);
  void end_row(SequencePtr sequence);
  void release_slot(Sequence& sequence);
  void emit(Sequence& sequence, Event event);
  void deliver();
  void request_row_ended(RequestRecord& request, FinishReason reason);
  void publish_stats();
  RequestStatus status_of(const RequestRecord& request) const;
  Result<std::string> pause_now(const std::string& request_id);
  Status resume_now(const std::string& request_id, int64_t max_tokens, std::shared_ptr<Listener> listener);

  Model& model_;
  Ops& ops_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;

  // shared with the doors
  Mailbox<std::function<void()>> commands_;
  mutable std::mutex mutex_;  // guards known_, stats_, waiting_requests_, draining_
  std::unordered_map<std::string, std::shared_ptr<RequestRecord>> known_;
  EngineStats stats_;
  int64_t waiting_requests_ = 0;
  int64_t rejected_ = 0;
  bool draining_ = false;
  std::atomic<bool> stopping_ = false;

  // thread side
  StatePool pool_;
  StepRunner runner_;
  std::vector<int64_t> free_slots_;
  std::deque<SequencePtr> waiting_;
  std::vector<SequencePtr> running_;
  std::vector<std::shared_ptr<RequestRecord>> to_deliver_;  // requests with events of this step
  std::map<std::string, Paused> paused_;
  std::vector<std::function<void()>> drained_;
  EngineStats counters_;
  SpeedMeter prefill_speed_, decode_speed_;
  std::thread thread_;
};

}  // namespace fulmar
