// Who starts next: what one owner or one large request has sent holds up no others for longer than a row.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/tiny_engine.h"

namespace fulmar::testing {
namespace {

// Names of requests in the order in which their rows have ended.
class Endings {
 public:
  void add(const std::string& name) {
    std::lock_guard lock(mutex_);
    names_.push_back(name);
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return names_.size() >= count; }));
    return names_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> names_;
};

class NotingListener final : public Listener {
 public:
  NotingListener(Endings& endings, std::string name) : endings_(endings), name_(std::move(name)) {}
  void deliver(std::vector<Event> events) override {
    for (const Event& event : events) {
      if (event.kind == Event::Kind::finished) endings_.add(name_);
    }
  }

 private:
  Endings& endings_;
  const std::string name_;
};

class FairStart : public ::testing::Test {
 protected:
  void submit(TinyEngine& tiny, const std::string& owner, const std::string& name, size_t rows,
              const std::string& prompt) {
    Request request{.owner = owner, .rows = {}, .listener = std::make_shared<NotingListener>(endings_, name)};
    for (size_t row = 0; row < rows; row++) {
      Ask ask = TinyEngine::greedy(prompt + std::to_string(row), 2);
      ask.request_id = name;
      ask.index = static_cast<int32_t>(row);
      request.rows.push_back(std::move(ask));
    }
    ASSERT_TRUE(tiny.engine().submit(std::move(request)).ok());
  }
  // Holds the only slot until it is cancelled.
  static std::shared_ptr<RecordingListener> hold_slot(TinyEngine& tiny) {
    auto endless = tiny.submit({TinyEngine::greedy("endless", 1'000'000)});
    EXPECT_TRUE(
        endless->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).admitted > 0; }));
    return endless;
  }
  static ptrdiff_t place_of(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  }

  Endings endings_;
};

TEST_F(FairStart, AnOwnersManyRowsHoldUpNoOtherOwner) {
  TinyEngine tiny({.slots = 1, .prefill_chunk = 16});
  const auto endless = hold_slot(tiny);
  for (int i = 0; i < 5; i++) submit(tiny, "alice", "bulk" + std::to_string(i), 10, "many");
  submit(tiny, "bob", "his", 1, std::string(200, 'x'));  // more tokens than any of alice's requests
  tiny.engine().cancel_all({});
  const auto names = endings_.wait_for(51);
  EXPECT_LE(place_of(names, "his"), 1);
}

TEST_F(FairStart, ALargeRequestHoldsUpNoSmallOneOfItsOwner) {
  TinyEngine tiny({.slots = 1, .prefill_chunk = 16});
  const auto endless = hold_slot(tiny);
  submit(tiny, "", "bulk", 50, "many");
  submit(tiny, "", "small", 1, "one");
  tiny.engine().cancel(Owner{}, "request-1");
  endless->finished();
  const auto names = endings_.wait_for(51);
  EXPECT_LE(place_of(names, "small"), 2);
}

// Two slots: one of them stays free of long prompts.
TEST_F(FairStart, LongPromptsLeaveASlotToShortOnes) {
  TinyEngine tiny({.slots = 2, .prefill_chunk = 16, .prefix_slots = 0});
  for (const char* name : {"a", "b", "c"}) submit(tiny, name, name, 1, std::string(4000, name[0]));
  submit(tiny, "d", "short", 1, "short");
  const auto names = endings_.wait_for(4);
  EXPECT_EQ(names.front(), "short") << "250 steps before any of the others";
}

}  // namespace
}  // namespace fulmar::testing
