// Responses in the background over servers that die, stop, are full or have a store that fails: a process at
// a time over what the one before has left.
#include "server/responses/background_jobs.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "server/core/call.h"
#include "server/families.h"
#include "server/routes.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

// The documents of one process: once it is dead nothing is written any more.
class MortalDocuments : public DocumentStore {
 public:
  using Step = std::function<void(const std::string& step)>;  // told behind each; may throw

  MortalDocuments(std::shared_ptr<DocumentStore> disk, const std::atomic<bool>& dead, Step step)
      : disk_(std::move(disk)), dead_(dead), step_(std::move(step)) {}

  Status put(const Document& document) override {
    return told("put " + document.id, [&] { return disk_->put(document); });
  }
  Result<std::optional<Document>> find(const std::string& id) override {
    return told("find " + id, [&] { return disk_->find(id); });
  }
  Result<std::optional<Document>> take(const std::string& id) override {
    return told("take " + id, [&] { return disk_->take(id); });
  }
  Status set_mark(const std::string& id, int64_t mark) override {
    return told("mark " + id, [&] { return disk_->set_mark(id, mark); });
  }
  Result<std::vector<Document>> lasting() override {
    return told("list", [&] { return disk_->lasting(); });
  }
  Result<std::vector<Document>> take_older(int64_t since) override { return disk_->take_older(since); }
  Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) override {
    return disk_->take_oldest(owner, bytes);
  }
  DocumentBytes bytes_of(const std::string& owner) override { return disk_->bytes_of(owner); }
  int64_t bytes() override { return disk_->bytes(); }
  int64_t now() override { return disk_->now(); }

 private:
  template <class Work>
  auto told(const std::string& step, const Work& work) -> decltype(work()) {
    if (dead_) return Error{ErrorKind::io, "the process is dead"};
    auto result = work();
    step_(step);
    return result;
  }

  const std::shared_ptr<DocumentStore> disk_;
  const std::atomic<bool>& dead_;
  const Step step_;
};

using Disk = std::shared_ptr<DocumentStore>;
Disk new_disk() { return std::move(*open_document_store({})); }

// A server without its sockets. `at_step`: told of each step that it takes with a document or the engine.
struct Process {
  explicit Process(
      Disk disk, MortalDocuments::Step at_step = [](const std::string&) {})
      : engine([at_step](const Ask& ask) {
          at_step("submit " + ask.request_id);
          return ServerRig::hello();
        }),
        model(small_model(engine, tokenizer)) {
    models.add(model);
    service.reset(new Service{
        .models = models,
        .options = {},
        .admin = nullptr,
        .routes = routes(),
        .families = make_families(models, {},
                                  std::make_shared<ResponseFamily>(
                                      std::make_unique<MortalDocuments>(std::move(disk), dead, at_step))),
        .post_job = [this](ThreadKind, ClientJob job) {
          std::lock_guard lock(mutex);
          posted.push_back(std::move(job));
          return true;
        }});
    EXPECT_TRUE(find_background_responses(*service).ok());
  }

  void take_up() { take_up_background_responses(service); }
  // What threads of the pool were asked for.
  size_t run_posted() {
    std::vector<ClientJob> jobs;
    {
      std::lock_guard lock(mutex);
      jobs.swap(posted);
    }
    for (ClientJob& job : jobs) job.run();
    return jobs.size();
  }
  // Waits until none is made: each is over, or waits.
  void rest() {
    for (const std::string id : {"resp_0", "resp_1", "resp_2"}) {
      const auto made = [&] {
        const auto look = service->families.responses->background.look(id);
        return look && look->state.phase != JobState::Phase::waits;
      };
      while (made()) std::this_thread::yield();
    }
  }
  // An orderly end.
  void stop() {
    service->draining = true;
    service->families.responses->background.interrupt_all();
    rest();
  }
  [[noreturn]] void die() {
    dead = true;
    throw std::runtime_error("dies");
  }
  std::string answer_of(const std::string& id) {
    const auto answer = present_answer(*service, id);
    return answer.ok() && *answer ? **answer : std::string();
  }

  std::atomic<bool> dead = false;
  std::mutex mutex;
  std::vector<ClientJob> posted;
  SmallTokenizer tokenizer;
  ScriptedEngine engine;
  ServedModelPtr model;
  ModelRegistry models;
  std::shared_ptr<Service> service;
};

ResponseJob job(const std::string& id) {
  return {.id = id,
          .request = R"({"input":"hi","background":true,"fulmar_owner":""})",
          .answer = R"({"id":")" + id + R"(","object":"response","status":"queued","error":null})",
          .created = 100};
}
void accept(Disk disk, const std::vector<std::string>& ids) {
  std::atomic<bool> dead = false;
  ResponseStore store(std::make_unique<MortalDocuments>(std::move(disk), dead, [](const std::string&) {}));
  for (const std::string& id : ids) ASSERT_FALSE(store.put_job(job(id)));
}
std::vector<int64_t> attempts(const Disk& disk) {
  std::vector<int64_t> marks;
  const auto lasting = disk->lasting();
  for (const Document& left : *lasting) marks.push_back(left.mark);
  return marks;
}

// What a process does with all that wait, one round after the other, as rows end; until it is dead. `runs`:
// it dies once that one runs.
void live(Process& process, const std::string& runs = {}) {
  for (int round = 0; round < 4; ++round) {
    process.engine.hold_after(1);
    process.take_up();
    for (const Ask& ask : process.engine.asks()) process.dead = process.dead || ask.request_id == runs;
    if (process.dead) return;
    process.engine.hold_after(-1);
    process.rest();
    process.service->families.responses->store.settle();
  }
}

// Each at a step behind the one that counts, at last with its row in the engine.
TEST(BackgroundJobs, OneThatServersDieOverIsGivenUpAndNoOther) {
  for (const std::string step :
       {"mark job:resp_1", "find job:resp_1", "find resp_1", "submit resp_1", "runs"}) {
    SCOPED_TRACE(step);
    const Disk disk = new_disk();
    accept(disk, {"resp_0", "resp_1", "resp_2"});
    for (int start = 1; start <= BackgroundResponses::kMostAttempts; ++start) {
      Process* self = nullptr;
      Process process(disk, [&](const std::string& at) {
        if (at == step) self->die();
      });
      self = &process;
      live(process, step == "runs" ? "resp_1" : "");
      EXPECT_TRUE(process.dead);
      EXPECT_EQ((*disk->find("job:resp_1"))->mark, start);
    }
    Process process(disk);
    live(process);
    EXPECT_THAT(process.answer_of("resp_1"), HasSubstr(R"("status":"failed")"));
    EXPECT_THAT(process.answer_of("resp_1"), HasSubstr("The server failed 3 times while this was made"));
    for (const Ask& ask : process.engine.asks()) EXPECT_NE(ask.request_id, "resp_1");
    for (const char* other : {"resp_0", "resp_2"}) {
      EXPECT_THAT(process.answer_of(other), HasSubstr(R"("status":"completed")")) << other;
    }
  }
}

// Of more than there are slots for, as many as have one are made; the others have no part in a crash.
TEST(BackgroundJobs, ThoseThatNoSlotIsFreeForAreNotCounted) {
  const Disk disk = new_disk();
  const int64_t slots = ScriptedEngine(nullptr).stats().slots_total;
  std::vector<std::string> ids;
  for (int64_t i = 0; i < slots + 3; ++i) ids.push_back("resp_1" + std::to_string(i));
  accept(disk, ids);
  {
    Process process(disk);
    process.engine.hold_after(1);
    process.take_up();
    EXPECT_EQ(static_cast<int64_t>(process.engine.asks().size()), slots);
    process.dead = true;
    process.engine.hold_after(-1);
    const auto runs = [&](const std::string& id) {
      const auto look = process.service->families.responses->background.look(id);
      return look && look->state.phase == JobState::Phase::runs;
    };
    while (std::any_of(ids.begin(), ids.end(), runs)) std::this_thread::yield();
  }
  const std::vector<int64_t> marks = attempts(disk);
  EXPECT_EQ(std::count(marks.begin(), marks.end(), 1), slots);
  EXPECT_EQ(std::count(marks.begin(), marks.end(), 0), 3);
}

TEST(BackgroundJobs, OneWhoseTakingUpFailsDoesSoAlone) {
  const Disk disk = new_disk();
  accept(disk, {"resp_0", "resp_1", "resp_2"});
  Process process(disk, [](const std::string& at) {
    if (at == "submit resp_1") throw std::runtime_error("no such luck");
  });
  process.take_up();
  process.rest();
  EXPECT_THAT(process.answer_of("resp_1"), HasSubstr(R"("status":"failed")"));
  EXPECT_THAT(process.answer_of("resp_1"), HasSubstr("no such luck"));
  for (const char* other : {"resp_0", "resp_2"}) {
    EXPECT_THAT(process.answer_of(other), HasSubstr(R"("status":"completed")")) << other;
  }
  process.service->families.responses->store.settle();
  EXPECT_TRUE(disk->lasting()->empty());
}

// More often than a job is begun: in our queue, in the engine's, running.
TEST(BackgroundJobs, OrderlyEndsAreNoAttempts) {
  for (const int64_t said : {-1, 0, 1}) {
    SCOPED_TRACE(said);
    const Disk disk = new_disk();
    accept(disk, {"resp_0", "resp_1"});
    for (int start = 0; start < 5; ++start) {
      {
        Process process(disk);
        if (said < 0) process.engine.refuse(Error{ErrorKind::unavailable, "full"});
        process.engine.hold_after(said);
        process.take_up();
        EXPECT_EQ(process.engine.asks().size(), said < 0 ? 0u : 2u);
        EXPECT_THAT(process.answer_of("resp_0"), HasSubstr(said < 0 ? "queued" : "in_progress"));
        process.stop();
      }
      EXPECT_EQ(attempts(disk), (std::vector<int64_t>{0, 0}));
    }
    Process process(disk);
    process.take_up();
    process.rest();
    EXPECT_THAT(process.answer_of("resp_0"), HasSubstr(R"("status":"completed")"));
  }
}

TEST(BackgroundJobs, ThoseThatFoundNoRoomAreTakenUpWhenARowEnds) {
  const Disk disk = new_disk();
  accept(disk, {"resp_0", "resp_1", "resp_2"});
  Process process(disk);
  process.engine.hold_after(1);
  process.engine.refuse(Error{ErrorKind::unavailable, "full"});
  process.take_up();
  EXPECT_EQ(process.run_posted(), 0u) << "nobody asks without an end";
  EXPECT_EQ(process.service->families.responses->background.waiting().size(), 3u);
  process.engine.refuse(std::nullopt);
  look_for_waiting_responses(process.service);  // as an end of a call does
  look_for_waiting_responses(process.service);
  EXPECT_EQ(process.run_posted(), 1u) << "one at a time";
  EXPECT_EQ(process.engine.asks().size(), 3u);
  process.engine.hold_after(-1);
  process.rest();
  EXPECT_EQ(process.run_posted(), 0u) << "none waits";
  for (const char* id : {"resp_0", "resp_1", "resp_2"}) {
    EXPECT_THAT(process.answer_of(id), HasSubstr(R"("status":"completed")")) << id;
  }
}

TEST(BackgroundJobs, ClientsFindOneAtEveryStep) {
  const Disk disk = new_disk();
  accept(disk, {"resp_0"});
  std::atomic<Process*> self = nullptr;
  std::set<std::string> looked_at;
  Process process(disk, [&](const std::string& at) {
    if (at.starts_with("submit")) return;            // under the engine's lock
    Process* const client = self.exchange(nullptr);  // it looks for documents itself
    if (!client) return;
    EXPECT_THAT(client->answer_of("resp_0"), HasSubstr("resp_0")) << at;
    looked_at.insert(at);
    self = client;
  });
  self = &process;
  process.take_up();
  process.rest();
  process.service->families.responses->store.settle();
  for (const char* step : {"mark job:resp_0", "find job:resp_0", "put resp_0", "take job:resp_0"}) {
    EXPECT_TRUE(looked_at.contains(step)) << step;
  }
}

TEST(BackgroundJobs, OneWhoseTextIsDamagedIsToldToHaveFailed) {
  for (const char* text : {"", "{", "[]", "{}", R"({"request":7,"answer":"{}"})", R"({"request":"{}"})"}) {
    const Disk disk = new_disk();
    ASSERT_TRUE(
        disk->put({.id = "job:resp_0", .owner = {}, .created = disk->now(), .text = text, .lasting = true})
            .ok());
    Process process(disk);
    EXPECT_THAT(process.answer_of("resp_0"), HasSubstr("\"queued\"")) << text;
    process.take_up();
    process.rest();
    process.service->families.responses->store.settle();
    EXPECT_THAT(process.answer_of("resp_0"), HasSubstr("\"failed\"")) << text;
    EXPECT_TRUE(disk->lasting()->empty()) << text;
  }
}

// What was chosen when it was accepted counts, whatever its fields would mean now.
TEST(BackgroundJobs, OneWhoseAdapterIsGoneFailsAndIsNotMadeWithoutIt) {
  const Disk disk = new_disk();
  {
    std::atomic<bool> dead = false;
    ResponseStore store(std::make_unique<MortalDocuments>(disk, dead, [](const std::string&) {}));
    ResponseJob with = job("resp_0"), without = job("resp_1");
    const std::string fields = R"({"input":"hi","background":true,"fulmar_owner":"","fulmar_adapter":)";
    with.request = fields + R"({"id":"gone","version":"00","strength":1}})";
    without.request = fields + "{}}";
    for (const ResponseJob& one : {with, without}) ASSERT_FALSE(store.put_job(one));
  }
  Process process(disk);
  live(process);
  EXPECT_NE(process.answer_of("resp_0").find("unknown adapter id"), std::string::npos);
  ASSERT_EQ(process.engine.asks().size(), 1U);
  EXPECT_EQ(process.engine.asks().front().request_id, "resp_1");
}

TEST(BackgroundJobs, AStoreThatCannotListThemIsNotTakenForAnEmptyOne) {
  const Disk disk = new_disk();
  accept(disk, {"resp_0"});
  Process process(disk);
  process.dead = true;
  EXPECT_FALSE(find_background_responses(*process.service).ok());
}

TEST(BackgroundJobs, ACancelThatTheStoreFailsChangesNothing) {
  const Disk disk = new_disk();
  accept(disk, {"resp_0"});
  {
    Process process(disk);
    process.dead = true;
    EXPECT_EQ(cancel_waiting(*process.service, "resp_0")->status, 503);
    process.dead = false;
    EXPECT_THAT(process.answer_of("resp_0"), HasSubstr("queued"));
    EXPECT_FALSE(cancel_waiting(*process.service, "resp_0"));
    EXPECT_THAT(process.answer_of("resp_0"), HasSubstr("cancelled"));
    process.dead = true;
  }
  Process process(disk);
  process.take_up();
  EXPECT_TRUE(process.engine.asks().empty()) << "it does not come back";
  EXPECT_THAT(process.answer_of("resp_0"), HasSubstr("cancelled"));
}

}  // namespace
}  // namespace fulmar::testing
