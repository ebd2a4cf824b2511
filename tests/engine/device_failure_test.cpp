// A device or an engine's thread that fails in the middle of its work: every row hears of it, nothing waits
// for ever, and what can still be read is not lost.
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "cpu/cpu_backend.h"
#include "ops/device.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::RowLog;
using testing::TinyEngine;

struct Fault {
  std::atomic<int> steps_left = 1 << 30;
  std::atomic<bool> copies = true;  // between slots
  std::atomic<bool> device = true;  // what fails; if not, memory does
};

class FaultyOps final : public CpuOps {
 public:
  explicit FaultyOps(std::shared_ptr<Fault> fault) : CpuOps({.threads = 1}), fault_(std::move(fault)) {}

  Batch begin_step(const StepInput& input, const State& state) override {
    if (fault_->steps_left-- <= 0) {
      if (!fault_->device) throw std::bad_alloc();
      throw DeviceFailure("the bus has gone");
    }
    return CpuOps::begin_step(input, state);
  }
  void copy_slot(const State& state, int64_t from, int64_t to) override {
    if (!fault_->copies) throw DeviceFailure("the bus has gone");
    CpuOps::copy_slot(state, from, to);
  }

 private:
  const std::shared_ptr<Fault> fault_;
};

// Remembers turns by session.
class TurnStore final : public SessionStore {
 public:
  explicit TurnStore(std::shared_ptr<std::map<std::string, int64_t>> turns) : turns_(std::move(turns)) {}
  Result<std::optional<StateBlob>> load(const std::string&, const std::string&) override {
    return std::optional<StateBlob>();
  }
  std::vector<Result<bool>> store(const std::vector<SessionWrite>& writes) override {
    for (const SessionWrite& write : writes) (*turns_)[write.id] = write.blob->turn;
    return std::vector<Result<bool>>(writes.size(), true);
  }
  Result<int64_t> erase(const std::string&, const std::string&, bool) override { return int64_t{0}; }
  Result<int64_t> newest_turn(const std::string&, const std::string&) override { return int64_t{0}; }
  Result<std::vector<StoredSession>> list(const std::string&, const SessionQuery&) override {
    return std::vector<StoredSession>();
  }

 private:
  const std::shared_ptr<std::map<std::string, int64_t>> turns_;
};

class FailingDevice : public ::testing::Test {
 protected:
  void open(EngineOptions options = {.slots = 2, .prefill_chunk = 16}) {
    options.on_failure = [this](const std::string& why) {
      EXPECT_EQ(why, failure());
      failures_++;
    };
    options.sessions.flush_after = std::chrono::hours(1);
    options.sessions.on_lost = [this](int64_t count) { lost_ += count; };
    tiny_ = std::make_unique<TinyEngine>(options, 7, std::make_unique<TurnStore>(turns_),
                                         std::make_unique<FaultyOps>(fault_));
  }
  static Ask turn(const std::string& session, int64_t max_tokens) {
    Ask ask = TinyEngine::greedy("a turn", max_tokens);
    ask.state = {.read_session = session, .write_session = session};
    return ask;
  }
  std::string failure() const {
    return fault_->device ? "the device has failed: the bus has gone"
                          : "the engine has failed: std::bad_alloc";
  }
  void expect_failed(const RowLog& row) {
    ASSERT_TRUE(row.last.has_value());
    EXPECT_EQ(row.last->reason, FinishReason::failed);
    ASSERT_TRUE(row.last->error.has_value());
    EXPECT_EQ(row.last->error->kind, ErrorKind::unavailable);
    EXPECT_EQ(row.last->error->text, failure());
  }

  const std::shared_ptr<Fault> fault_ = std::make_shared<Fault>();
  const std::shared_ptr<std::map<std::string, int64_t>> turns_ =
      std::make_shared<std::map<std::string, int64_t>>();
  std::atomic<int> failures_ = 0;
  std::atomic<int64_t> lost_ = 0;
  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(FailingDevice, EndsEveryRowAndRefusesFurtherOnes) {
  open();
  const auto running = tiny_->submit({TinyEngine::greedy("a", 1'000'000), TinyEngine::greedy("b", 1'000'000),
                                      TinyEngine::greedy("waits", 3), TinyEngine::greedy("waits", 3)});
  ASSERT_TRUE(
      running->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  fault_->steps_left = 0;
  const auto rows = running->finished(4);
  for (const auto& [index, row] : rows) expect_failed(row);
  EXPECT_TRUE(tiny_->engine().states().empty()) << "it still answers";
  EXPECT_EQ(tiny_->engine().stats().failure, failure());
  EXPECT_EQ(failures_, 1);
  Ask late = TinyEngine::greedy("late", 1);
  late.request_id = "late";
  const Status refused =
      tiny_->engine().submit({.rows = {late}, .listener = std::make_shared<testing::RecordingListener>()});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  tiny_->stop();
  EXPECT_EQ(failures_, 1);
}

TEST_F(FailingDevice, LosesNoRowThatWasAboutToStartOrToEnd) {
  open({.slots = 2, .prefill_chunk = 16, .device_sessions = 4});
  tiny_->run(turn("s", 2));
  fault_->copies = false;  // its state cannot be brought to the row's slot
  const auto rows = tiny_->submit({TinyEngine::greedy("starts first", 3), turn("s", 2)})->finished(2);
  for (const auto& [index, row] : rows) expect_failed(row);
}

TEST_F(FailingDevice, StoresWhatHostMemoryHasAndCountsWhatWasOnTheDevice) {
  open({.slots = 2, .prefill_chunk = 16, .device_sessions = 1});
  tiny_->run(turn("host", 2));
  tiny_->run(turn("device", 2));  // pushes the other one down
  fault_->steps_left = 0;
  expect_failed(tiny_->run(TinyEngine::greedy("x", 2)));
  tiny_->engine().states();
  EXPECT_EQ(turns_->count("host"), 1u) << "stored before anybody is told that the process may end";
  tiny_->stop();
  EXPECT_EQ(turns_->count("device"), 0u);
  EXPECT_EQ(lost_, 1);
}

TEST_F(FailingDevice, AnExceptionEndsTheRowsAndNoSession) {
  open({.slots = 2, .prefill_chunk = 16, .device_sessions = 1});
  tiny_->run(turn("host", 2));
  tiny_->run(turn("device", 2));
  fault_->device = false;
  fault_->steps_left = 0;
  const auto rows = tiny_->submit({TinyEngine::greedy("x", 2), TinyEngine::greedy("y", 2)})->finished(2);
  for (const auto& [index, row] : rows) expect_failed(row);
  EXPECT_TRUE(tiny_->engine().states().empty()) << "it still answers";
  EXPECT_EQ(turns_->count("host"), 1u);
  EXPECT_EQ(turns_->count("device"), 1u) << "the device is well";
  EXPECT_EQ(failures_, 1);
  tiny_->stop();
  EXPECT_EQ(lost_, 0);
}

}  // namespace
}  // namespace fulmar
