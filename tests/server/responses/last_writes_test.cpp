// What an ending server does about answers that the disk does not take: it tries them for as long as it may.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "server/responses/response_store.h"

namespace fulmar {
namespace {

constexpr std::chrono::hours kNever(1000);
constexpr int kAnswers = 20, kNoRoom = 1'000'000;

// A disk that takes nothing before it was asked `full_for` times.
struct Disk {
  const int full_for;
  std::atomic<int> asked = 0;
  std::atomic<int> taken = 0;
};

class DocumentsOnDisk final : public DocumentStore {
 public:
  explicit DocumentsOnDisk(Disk& disk) : disk_(disk) {}
  Status put(const Document& document) override {
    if (++disk_.asked <= disk_.full_for) return Error{ErrorKind::resource, "no room on the disk"};
    ++disk_.taken;
    return memory_->put(document);
  }
  Result<std::optional<Document>> find(const std::string& id) override { return memory_->find(id); }
  Result<std::optional<Document>> take(const std::string& id) override { return memory_->take(id); }
  Status set_mark(const std::string& id, int64_t mark) override { return memory_->set_mark(id, mark); }
  Result<std::vector<Document>> lasting() override { return memory_->lasting(); }
  Result<std::vector<Document>> take_older(int64_t since) override { return memory_->take_older(since); }
  Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) override {
    return memory_->take_oldest(owner, bytes);
  }
  DocumentBytes bytes_of(const std::string& owner) override { return memory_->bytes_of(owner); }
  int64_t bytes() override { return memory_->bytes(); }
  int64_t now() override { return memory_->now(); }

 private:
  Disk& disk_;
  const std::unique_ptr<DocumentStore> memory_ = std::move(*open_document_store({}));
};

// Answers, then ends. Returns how many answers are told to be lost.
int64_t lost_at_the_end(Disk& disk, ResponseStore::Clock::time_point give_up,
                        std::chrono::milliseconds retry) {
  int64_t lost = 0;
  {
    ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), {}, retry);
    store.on_lost([&](int64_t count) { lost = count; });
    for (int i = 0; i < kAnswers; ++i) {
      store.put(
          {.id = "resp_" + std::to_string(i), .model = "m", .json = "{}", .created = 100, .owner = "a"});
    }
    store.settle();
    store.try_until(give_up);
  }
  return lost;
}

TEST(LastWrites, GoOnUntilTheDiskHasRoomAgain) {
  Disk disk{.full_for = 10 * kAnswers};
  const auto never = ResponseStore::Clock::now() + kNever;
  EXPECT_EQ(lost_at_the_end(disk, never, std::chrono::milliseconds(1)), 0);
  EXPECT_EQ(disk.taken, kAnswers);
}

TEST(LastWrites, KeepNobodyWaitingLongerThanTheyMay) {
  Disk disk{.full_for = kNoRoom};
  EXPECT_EQ(lost_at_the_end(disk, ResponseStore::Clock::now(), kNever), kAnswers);
  EXPECT_EQ(disk.asked, 2 * kAnswers) << "each was tried at the end, too";
}

}  // namespace
}  // namespace fulmar
