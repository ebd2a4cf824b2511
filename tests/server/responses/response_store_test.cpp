// What is promised of stored responses and of those yet to be made, whatever happens in between: against a
// model of the promises, with a store that fails, and with one that takes its time.
#include "server/responses/response_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <random>
#include <set>
#include <thread>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

// A store that another one does the work of; tests change what they are about.
class Wrapped : public DocumentStore {
 public:
  explicit Wrapped(std::shared_ptr<DocumentStore> inner = nullptr)
      : inner_(inner ? std::move(inner) : std::move(*open_document_store({}))) {}
  Status put(const Document& document) override { return inner_->put(document); }
  Result<std::optional<Document>> find(const std::string& id) override { return inner_->find(id); }
  Result<std::optional<Document>> take(const std::string& id) override { return inner_->take(id); }
  Status set_mark(const std::string& id, int64_t mark) override { return inner_->set_mark(id, mark); }
  Result<std::vector<Document>> lasting() override { return inner_->lasting(); }
  Result<std::vector<Document>> take_older(int64_t since) override { return inner_->take_older(since); }
  Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) override {
    return inner_->take_oldest(owner, bytes);
  }
  DocumentBytes bytes_of(const std::string& owner) override { return inner_->bytes_of(owner); }
  int64_t bytes() override { return inner_->bytes(); }
  int64_t now() override { return inner_->now(); }

 private:
  const std::shared_ptr<DocumentStore> inner_;
};

// The stored response of that id; nothing: it is not there.
std::optional<StoredResponse> stored_in(ResponseStore& store, const std::string& id) {
  auto found = store.find(id);
  return found.ok() ? std::move(*found) : std::nullopt;
}

StoredResponse answer(const std::string& id, const std::string& owner, size_t bytes) {
  return {.id = id, .model = "m", .json = std::string(bytes, 'x'), .created = 100, .owner = owner};
}
ResponseJob job(const std::string& id, const std::string& owner, size_t bytes = 10) {
  return {.id = id, .request = std::string(bytes, 'r'), .answer = "{}", .created = 100, .owner = owner};
}

TEST(ResponseStore, AStoreThatFailsIsToldFromOneWithoutTheResponse) {
  struct Unreadable : Wrapped {
    Result<std::optional<Document>> find(const std::string&) override { return Error{ErrorKind::io, "x"}; }
  };
  EXPECT_FALSE(ResponseStore(std::make_unique<Unreadable>()).find("resp_1").ok());
  EXPECT_TRUE(ResponseStore().find("resp_1").ok());
}

TEST(ResponseStore, HasABudgetOfBytes) {
  ResponseStore store(nullptr, ResponseBounds{{1000, 4000}, {1000, 4000}});
  for (int i = 0; i < 10; ++i) store.put(answer("resp_" + std::to_string(i), "a", 200));
  store.settle();
  const auto gone = store.take_expired();
  ASSERT_FALSE(gone.empty());
  EXPECT_EQ(gone.front().id, "resp_0");
  EXPECT_EQ(gone.front().model, "m");
  EXPECT_TRUE(store.take_expired().empty()) << "told once";
  EXPECT_FALSE(stored_in(store, "resp_0"));
  EXPECT_TRUE(stored_in(store, "resp_9"));
}

TEST(ResponseStore, KeepsWhatTheNextTurnNeeds) {
  ResponseStore store;
  store.put({"resp_1", "m", "{}", 100, "tools", R"([{"id":"i"}])", {"call_1", "call_2"}});
  store.settle();
  const auto found = stored_in(store, "resp_1");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->model, "m");
  EXPECT_EQ(found->created, 100);
  EXPECT_EQ(found->tools, "tools");
  EXPECT_EQ(found->input, R"([{"id":"i"}])");
  EXPECT_EQ(found->calls, (std::vector<std::string>{"call_1", "call_2"}));
}

TEST(ResponseStore, ForgetsByTheAgeThatTimeHasGivenThem) {
  double wall = 1.8e9, passing = 0;
  auto documents =
      open_document_store({}, {.lifetime = ResponseStore::kSeconds,
                               .clocks = {.wall = [&] { return wall; }, .passing = [&] { return passing; }}});
  ASSERT_TRUE(documents.ok());
  ResponseStore store(std::move(*documents));
  store.put(answer("resp_1", "a", 10));
  EXPECT_FALSE(store.put_job(job("resp_3", "a")));
  store.settle();
  EXPECT_TRUE(store.take_expired().empty());
  wall += 400.0 * ResponseStore::kSeconds;  // a jump
  EXPECT_TRUE(store.take_expired().empty());
  passing += ResponseStore::kSeconds / 2.0;
  store.put(answer("resp_2", "a", 10));
  store.settle();
  EXPECT_TRUE(store.take_expired().empty());
  EXPECT_EQ(stored_in(store, "resp_1")->created, 100);
  wall = 1.8e9;
  passing += ResponseStore::kSeconds * 0.6;
  const auto expired = store.take_expired();
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].id, "resp_1");
  EXPECT_TRUE(stored_in(store, "resp_2"));
  passing += ResponseStore::kSeconds * 30.0;
  EXPECT_EQ(store.take_expired().size(), 1u);
  EXPECT_EQ(store.jobs()->size(), 1u) << "a job that has not ended has no age";
}

TEST(ResponseStore, WhatIsUnderWayIsBounded) {
  ResponseStore store(nullptr, ResponseBounds{{1000, 4000}, {100, 400}});
  PromisedRoomPtr first, second, other;
  EXPECT_FALSE(store.promise("a", 60, first));
  EXPECT_EQ(store.promise("a", 60, second)->status, 429);
  EXPECT_FALSE(second);
  EXPECT_FALSE(store.promise("b", 60, other));
  first.reset();
  EXPECT_FALSE(store.promise("a", 60, second)) << "given back";
  // Until it is written.
  StoredResponse response = answer("resp_1", "a", 20);
  response.room = std::move(second);
  store.put(std::move(response));
  store.settle();
  EXPECT_FALSE(store.promise("a", 60, second));
}

// What the disk does with puts, and how many it was asked for.
struct Disk {
  enum class Mood { fine, full, throws };
  std::atomic<Mood> mood = Mood::fine;
  std::atomic<int> asked = 0;
  const std::shared_ptr<DocumentStore> documents = std::move(*open_document_store({}));
};
constexpr std::chrono::hours kNever(1000);  // to try again

class DocumentsOnDisk : public Wrapped {
 public:
  explicit DocumentsOnDisk(Disk& disk) : Wrapped(disk.documents), disk_(disk) {}
  Status put(const Document& document) override {
    ++disk_.asked;
    if (disk_.mood == Disk::Mood::throws) throw std::bad_alloc();
    if (disk_.mood == Disk::Mood::full) return Error{ErrorKind::resource, "no room on the disk"};
    return Wrapped::put(document);
  }

 private:
  Disk& disk_;
};

TEST(ResponseStore, AJobEndsOnceItsAnswerIsStored) {
  Disk disk;
  {
    ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), {}, kNever);
    ASSERT_FALSE(store.put_job(job("resp_1", "a")));
    disk.mood = Disk::Mood::full;
    store.put(answer("resp_1", "a", 10));
    store.put(answer("resp_2", "a", 10));
    store.settle();
    ASSERT_TRUE(*store.find_job("resp_1")) << "the next server makes it again";
    EXPECT_TRUE(stored_in(store, "resp_1") && stored_in(store, "resp_2"))
        << "nothing that was answered is lost";
    EXPECT_EQ(store.put_job(job("resp_3", "a"))->status, 503);
    EXPECT_FALSE(store.end_job(answer("resp_1", "a", 10)).ok());
    EXPECT_TRUE(*store.find_job("resp_1")) << "what fails changes nothing";
    disk.mood = Disk::Mood::fine;
  }
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk));
  EXPECT_TRUE(store.jobs()->empty());
  EXPECT_TRUE(stored_in(store, "resp_1") && stored_in(store, "resp_2"));
}

TEST(ResponseStore, AnAnswerWaitsWhateverGoesWrongAndIsWrittenAtTheEnd) {
  for (const auto mood : {Disk::Mood::full, Disk::Mood::throws}) {
    Disk disk;
    {
      ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), {}, kNever);
      disk.mood = mood;
      for (int i = 0; i < 20; ++i) store.put(answer("resp_" + std::to_string(i), "a", 10));
      store.settle();
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(stored_in(store, "resp_" + std::to_string(i)));
      disk.mood = Disk::Mood::fine;
    }
    ResponseStore store(std::make_unique<DocumentsOnDisk>(disk));
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(stored_in(store, "resp_" + std::to_string(i))) << i;
  }
}

TEST(ResponseStore, RequestsDriveNoWritesOfWhatCouldNotBeWritten) {
  Disk disk;
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), {}, kNever);
  disk.mood = Disk::Mood::full;
  for (int i = 0; i < 20; ++i) {
    store.put(answer("resp_" + std::to_string(i), "a", 10));
    (void)store.take_expired();
    store.settle();
  }
  EXPECT_EQ(disk.asked, 20) << "each was tried once";
}

TEST(ResponseStore, TriesAgainByItself) {
  Disk disk;
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), {}, std::chrono::milliseconds(1));
  for (const auto mood : {Disk::Mood::full, Disk::Mood::throws}) {
    disk.mood = mood;
    for (int i = 0; i < 20; ++i) store.put(answer("resp_" + std::to_string(i), "a", 10));
    store.settle();
    while (disk.asked < 30) std::this_thread::yield();
    EXPECT_EQ(disk.documents->bytes(), 0);
    disk.mood = Disk::Mood::fine;
    for (int i = 0; i < 20; ++i) {
      const std::string id = "resp_" + std::to_string(i);
      while (!*disk.documents->find(id)) std::this_thread::yield();
      EXPECT_TRUE(*store.take(id));
    }
    disk.asked = 0;
  }
}

TEST(ResponseStore, WhatCannotBeWrittenPushesNothingOut) {
  Disk disk;
  {
    ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), ResponseBounds{{1000, 4000}, {1000, 4000}},
                        kNever);
    for (int i = 0; i < 3; ++i) store.put(answer("resp_" + std::to_string(i), "a", 200));
    store.settle();
    disk.mood = Disk::Mood::full;
    store.put(answer("resp_3", "a", 700));
    EXPECT_FALSE(store.put_job(job("resp_4", "a", 700)) == std::nullopt);
    store.settle();
    EXPECT_TRUE(store.take_expired().empty());
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(stored_in(store, "resp_" + std::to_string(i))) << i;
    disk.mood = Disk::Mood::fine;
  }
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk));
  EXPECT_FALSE(stored_in(store, "resp_0")) << "its room is taken once the other is there";
  EXPECT_TRUE(stored_in(store, "resp_3"));
}

TEST(ResponseStore, WhatWaitsToBeWrittenTakesTheRoomOfItsAnswer) {
  Disk disk;
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk), ResponseBounds{{9000, 9000}, {1000, 4000}},
                      kNever);
  disk.mood = Disk::Mood::full;
  PromisedRoomPtr room, more;
  EXPECT_FALSE(store.promise("a", 10, room));
  StoredResponse response = answer("resp_1", "a", 300);
  response.tools = std::string(300, 't');
  response.input = std::string(300, 'i');
  response.room = std::move(room);
  store.put(std::move(response));
  store.settle();
  EXPECT_EQ(store.promise("a", 200, more)->status, 429);
  EXPECT_FALSE(store.promise("a", 90, more));
  disk.mood = Disk::Mood::fine;
}

// A mark that waits is written before a later one.
TEST(ResponseStore, AttemptsAreCountedBeforeTheCallReturns) {
  Disk disk;
  ResponseStore store(std::make_unique<DocumentsOnDisk>(disk));
  ASSERT_FALSE(store.put_job(job("resp_1", "a")));
  for (int64_t i = 1; i <= 50; ++i) {
    store.note_attempts("resp_1", 0);
    EXPECT_TRUE(store.count_attempt("resp_1", i));
    EXPECT_EQ((*disk.documents->lasting())[0].mark, i);
  }
}

// A put of "slow" takes until it is let go.
class SlowDocuments : public Wrapped {
 public:
  SlowDocuments(std::promise<void>& begun, std::shared_future<void> let_go)
      : begun_(begun), let_go_(std::move(let_go)) {}
  Status put(const Document& document) override {
    if (document.id == "slow") {
      begun_.set_value();
      let_go_.wait();
    }
    return Wrapped::put(document);
  }

 private:
  std::promise<void>& begun_;
  const std::shared_future<void> let_go_;
};

TEST(ResponseStore, AWriteThatTakesLongKeepsWaitingWhoeverTakesItAlone) {
  std::promise<void> begun, let_go;
  auto slow = std::make_unique<SlowDocuments>(begun, let_go.get_future().share());
  SlowDocuments& disk = *slow;
  ResponseStore store(std::move(slow));
  store.put(answer("known", "a", 10));
  store.settle();
  store.put(answer("slow", "b", 10));
  begun.get_future().wait();
  auto others = std::async(std::launch::async, [&] {
    PromisedRoomPtr room;
    EXPECT_FALSE(store.promise("a", 10, room));
    EXPECT_FALSE(store.put_job(job("resp_1", "a")));
    EXPECT_TRUE(stored_in(store, "known") && stored_in(store, "slow") && *store.find_job("resp_1"));
    store.put(answer("more", "a", 10));
    EXPECT_TRUE(store.take_expired().empty());
    EXPECT_TRUE(*store.take("known"));
    EXPECT_TRUE(store.drop_job("resp_1").ok());
  });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  auto deleter = std::async(std::launch::async, [&] {
    EXPECT_TRUE(*store.take("slow"));
    EXPECT_FALSE(*disk.find("slow")) << "a process that ends here must not bring it back";
  });
  while (stored_in(store, "slow")) std::this_thread::yield();
  let_go.set_value();
  deleter.wait();
  store.settle();
  EXPECT_TRUE(stored_in(store, "more") && !stored_in(store, "slow"));
}

// ---- random orders of everything, against the promises

class Promises {
 public:
  explicit Promises(uint64_t seed) : random_(seed) {
    std::string name = (fs::temp_directory_path() / "fulmar-promises-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    open();
  }
  ~Promises() {
    store_.reset();
    fs::remove_all(folder_);
  }

  void step() {
    const std::string owner(1, static_cast<char>('a' + roll(4)));
    switch (roll(10)) {
      case 0:
      case 1:
      case 2:
        ask(owner);
        break;
      case 3:
      case 4:
        accept(owner);
        break;
      case 5:
      case 6:
        if (!jobs_.empty()) end(pick());
        break;
      case 7:
        if (!jobs_.empty()) drop(pick());
        break;
      case 8:
        erase(owner);
        break;
      default:
        roll(4) == 0 ? grow_old() : restart(roll(2) == 0);
    }
    check();
  }

 private:
  static constexpr ResponseBounds kBounds = {{4000, 12000}, {3000, 9000}};
  struct Answer {
    std::string id;
    double at;
  };

  uint64_t roll(uint64_t sides) { return random_() % sides; }
  // Mostly small, some about the bounds.
  size_t size() { return roll(4) == 0 ? roll(4500) : roll(600); }
  std::string new_id() { return "resp_" + std::to_string(made_++); }
  std::string pick() { return std::next(jobs_.begin(), static_cast<int64_t>(roll(jobs_.size())))->first; }
  fs::path file() const { return folder_ / "r.db"; }

  void open() {
    auto documents = open_document_store(
        file(), {.lifetime = ResponseStore::kSeconds,
                 .clocks = {.wall = [this] { return 1.8e9 + now_; }, .passing = [this] { return now_; }}});
    ASSERT_TRUE(documents.ok()) << documents.error().text;
    store_ = std::make_unique<ResponseStore>(std::move(*documents), kBounds);
  }

  // An answer while a client waits: accepted only with room, and then kept.
  void ask(const std::string& owner) {
    const size_t bytes = size();
    PromisedRoomPtr room;
    if (store_->promise(owner, static_cast<int64_t>(bytes), room)) return;
    put(new_id(), owner, bytes, std::move(room));
  }
  void put(const std::string& id, const std::string& owner, size_t bytes, PromisedRoomPtr room) {
    StoredResponse response = answer(id, owner, bytes);
    response.room = std::move(room);
    store_->put(std::move(response));
    store_->settle();
    answers_[owner].push_back({id, now_});
    acted_ = owner;
    put_ = id;
  }
  void accept(const std::string& owner) {
    const std::string id = new_id();
    if (store_->put_job(job(id, owner, size()))) return;
    jobs_[id] = owner;
    acted_ = owner;
  }
  void end(const std::string& id) {
    const std::string owner = jobs_[id];
    put(id, owner, roll(300), nullptr);
    jobs_.erase(id);
  }
  void drop(const std::string& id) {
    EXPECT_TRUE(store_->drop_job(id).ok());
    jobs_.erase(id);
  }
  void erase(const std::string& owner) {
    std::vector<Answer>& own = answers_[owner];
    if (own.empty()) return;
    const auto chosen = own.begin() + static_cast<int64_t>(roll(own.size()));
    EXPECT_TRUE(*store_->take(chosen->id));
    own.erase(chosen);
  }
  void grow_old() { now_ += ResponseStore::kSeconds * 0.7; }
  // Orderly, or as a kill leaves the file.
  void restart(bool orderly) {
    if (orderly) {
      store_.reset();
      return open();
    }
    const fs::path kept = folder_ / "kept";
    fs::create_directory(kept);
    for (const char* ending : {"", "-wal"}) {
      fs::copy_file(file().string() + ending, kept / ("r.db" + std::string(ending)));
    }
    store_.reset();
    for (const char* ending : {"", "-wal"}) {
      fs::remove(file().string() + ending);
      fs::rename(kept / ("r.db" + std::string(ending)), file().string() + ending);
    }
    fs::remove(kept);
    open();
  }

  void check() {
    std::set<std::string> told;
    for (const StoredResponse& gone : store_->take_expired()) told.insert(gone.id);
    for (auto& [owner, own] : answers_) check_answers(owner, own, told);
    const std::vector<ResponseJob> listed = *store_->jobs();
    for (const ResponseJob& left : listed) EXPECT_EQ(left.owner, jobs_.at(left.id));
    EXPECT_EQ(listed.size(), jobs_.size());
    for (const auto& [id, owner] : jobs_) EXPECT_TRUE(*store_->find_job(id)) << id << " was accepted";
    acted_.clear();
    put_.clear();
  }
  // What is gone is old, or the oldest of whoever has just stored something; and it is told of.
  void check_answers(const std::string& owner, std::vector<Answer>& own, const std::set<std::string>& told) {
    std::vector<Answer> kept;
    for (const Answer& one : own) {
      if (stored_in(*store_, one.id)) {
        EXPECT_LE(now_ - one.at, ResponseStore::kSeconds + 1) << one.id << " is old";
        kept.push_back(one);
        continue;
      }
      const bool old = now_ - one.at > ResponseStore::kSeconds - 1;
      EXPECT_TRUE(old || owner == acted_) << one.id << " was pushed out by another than " << owner;
      EXPECT_TRUE(kept.empty()) << one.id << " is gone, and an older one is not";
      EXPECT_NE(one.id, put_) << "pushed out as it was put";
      EXPECT_TRUE(told.contains(one.id)) << one.id;
    }
    own = std::move(kept);
  }

  std::mt19937_64 random_;
  fs::path folder_;
  double now_ = 0;
  int64_t made_ = 0;
  std::unique_ptr<ResponseStore> store_;
  std::map<std::string, std::vector<Answer>> answers_;  // by owner, the oldest first
  std::map<std::string, std::string> jobs_;             // owners by id
  std::string acted_, put_;  // who has stored something in this step, and which answer
};

TEST(ResponseStore, KeepsItsPromisesInAnyOrderOfEvents) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Promises promises(seed);
    for (int step = 0; step < 120 && !::testing::Test::HasFailure(); ++step) promises.step();
  }
}

}  // namespace
}  // namespace fulmar
