// What is told of stored responses while their documents are not written yet, or cannot be.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <thread>

#include "net/exchange_state.h"
#include "server/core/call.h"
#include "server/families.h"
#include "server/routes.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;

// Lets answers through once it is open; jobs always.
class Gate {
 public:
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

struct Disk {
  std::shared_ptr<DocumentStore> documents = std::move(*open_document_store({}));
  Gate gate;
  std::atomic<bool> fails = false, closed = false;
  std::atomic<int> until_failure = 0;  // of the calls that read or remove a text, the one that fails; 0: none

  bool fails_now() { return until_failure > 0 && --until_failure == 0; }
};

Error no_space() { return {ErrorKind::io, "no space left"}; }

class GatedDocuments : public DocumentStore {
 public:
  explicit GatedDocuments(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}
  ~GatedDocuments() override {
    disk_->closed = true;
    disk_->closed.notify_all();
  }
  Status put(const Document& document) override {
    const bool job = document.id.starts_with("job:");
    if (!job) disk_->gate.pass();
    if (!job && disk_->fails) return no_space();
    return disk_->documents->put(document);
  }
  Result<std::optional<Document>> find(const std::string& id) override {
    if (disk_->fails_now()) return no_space();
    return disk_->documents->find(id);
  }
  Result<std::optional<Document>> take(const std::string& id) override {
    if (disk_->fails_now()) return no_space();
    return disk_->documents->take(id);
  }
  Status set_mark(const std::string& id, int64_t mark) override {
    return disk_->documents->set_mark(id, mark);
  }
  Result<std::vector<Document>> lasting() override { return disk_->documents->lasting(); }
  Result<std::vector<Document>> take_older(int64_t since) override {
    return disk_->documents->take_older(since);
  }
  Result<std::vector<Document>> take_oldest(const std::string& owner, int64_t bytes) override {
    return disk_->documents->take_oldest(owner, bytes);
  }
  DocumentBytes bytes_of(const std::string& owner) override { return disk_->documents->bytes_of(owner); }
  int64_t bytes() override { return disk_->documents->bytes(); }
  int64_t now() override { return disk_->documents->now(); }

 private:
  const std::shared_ptr<Disk> disk_;
};

// A request, and its answer as it comes.
class Asked {
 public:
  Asked(const std::shared_ptr<Service>& service, std::string_view method, std::string_view path,
        std::string argument, std::string body) {
    HttpRequest request;
    request.method = method;
    request.path = path_with(path, argument);
    request.body = std::move(body);
    auto state = std::make_shared<ExchangeState>(std::move(request), ClientLease(), inbox_, size_t{4} << 20);
    for (const Route& route : routes()) {
      if (route.method != method || route.path != path) continue;
      Call::dispatch(
          std::make_shared<Call>(service, route, std::make_shared<Exchange>(state), std::move(argument)));
      return;
    }
    ADD_FAILURE() << "no route " << path;
  }
  bool ended() {
    std::vector<Delivery> come;
    inbox_->take(come);
    for (const Delivery& one : come) {
      ended_ |= one.kind == Delivery::Kind::respond || one.kind == Delivery::Kind::end;
      text_ += one.bytes;
      if (one.response) status_ = one.response->status;
      if (one.response) text_ += one.response->body;
    }
    return ended_;
  }
  const std::string& text() {
    while (!ended()) woken_->acquire();
    return text_;
  }
  int status() {
    text();
    return status_;
  }

 private:
  const std::shared_ptr<std::counting_semaphore<>> woken_ = std::make_shared<std::counting_semaphore<>>(0);
  const std::shared_ptr<DeliveryInbox> inbox_ =
      std::make_shared<DeliveryInbox>([woken = woken_] { woken->release(); });
  bool ended_ = false;
  int status_ = 0;
  std::string text_;
};

// A server without its sockets, whose threads are the caller's.
struct Stand {
  Stand() : engine([](const Ask&) { return ServerRig::hello(); }) {
    models.add(small_model(engine, tokenizer));
    service.reset(new Service{
        .models = models,
        .options = {},
        .admin = nullptr,
        .routes = routes(),
        .families = make_families(models, {},
                                  std::make_shared<ResponseFamily>(std::make_unique<GatedDocuments>(disk),
                                                                   std::nullopt, std::chrono::hours(1))),
        .post_job = [](ThreadKind, ClientJob job) {
          const Meter::Scope scope(*job.meter);
          job.run();
          return true;
        }});
  }
  Asked ask(const std::string& body) const { return {service, "POST", "/v1/responses", "", body}; }
  Asked cancel(const std::string& id) const { return {service, "POST", "/v1/responses/*/cancel", id, "{}"}; }
  Asked remove(const std::string& id) const { return {service, "DELETE", "/v1/responses/*", id, ""}; }
  Asked show(const std::string& id) const { return {service, "GET", "/v1/responses/*", id, ""}; }
  // The engine's thread has told all that it had to tell before.
  void rest() const { EXPECT_EQ(ask(R"({"input":"x","store":false})").status(), 200); }

  const std::shared_ptr<Disk> disk = std::make_shared<Disk>();
  SmallTokenizer tokenizer;
  ScriptedEngine engine;
  ModelRegistry models;
  std::shared_ptr<Service> service;
};

TEST(WrittenFirst, AnAnswerThatIsStoredEndsOnceItIsWritten) {
  for (const std::string more : {R"(,"stream":false})", R"(,"stream":true})"}) {
    for (const bool fails : {false, true}) {
      SCOPED_TRACE(more + (fails ? " fails" : ""));
      const Stand stand;
      stand.disk->fails = fails;
      Asked asked = stand.ask(R"({"input":"x")" + more);
      stand.rest();
      EXPECT_FALSE(asked.ended()) << "it could be lost yet";
      stand.disk->gate.open();
      EXPECT_EQ(asked.status(), 200) << asked.text();
      EXPECT_THAT(asked.text(), HasSubstr("Hello world"));
    }
  }
}

TEST(WrittenFirst, CancelledIsToldOnceItIsWritten) {
  Stand stand;
  stand.engine.hold_after(1);
  const std::string made = stand.ask(R"({"input":"x","background":true})").text();
  const std::string id = parse_json(made)->find("id")->as_string();
  Asked cancel = stand.cancel(id);
  EXPECT_TRUE(stand.engine.wait_idle());
  stand.engine.hold_after(-1);
  stand.rest();
  EXPECT_FALSE(cancel.ended()) << "the next server would make it after all";
  stand.disk->gate.open();
  EXPECT_THAT(cancel.text(), HasSubstr(R"("status":"cancelled")"));
  EXPECT_EQ(cancel.status(), 200);
  EXPECT_TRUE((*stand.disk->documents->find(id)).has_value());
}

TEST(WrittenFirst, AnEndInTheBackgroundIsToldOnceItIsWritten) {
  for (const bool fails : {false, true}) {
    SCOPED_TRACE(fails);
    Stand stand;
    stand.disk->fails = fails;
    const std::string made = stand.ask(R"({"input":"x","background":true})").text();
    const std::string id = parse_json(made)->find("id")->as_string();
    EXPECT_TRUE(stand.engine.wait_idle());
    stand.rest();
    Asked shown = stand.show(id);
    EXPECT_FALSE(shown.ended()) << "the next server would make it again";
    stand.disk->gate.open();
    EXPECT_EQ(shown.status(), fails ? 503 : 200) << shown.text();
    EXPECT_THAT(shown.text(), HasSubstr(fails ? "store_failed" : R"("status":"completed")"));
    EXPECT_EQ(stand.show(id).status(), fails ? 503 : 200);
  }
}

TEST(WrittenFirst, CancelledIsNotToldWhileItCannotBeWritten) {
  Stand stand;
  stand.disk->fails = true;
  stand.disk->gate.open();
  stand.engine.hold_after(1);
  const std::string made = stand.ask(R"({"input":"x","background":true})").text();
  const std::string id = parse_json(made)->find("id")->as_string();
  for (int i = 0; i < 2; ++i) {
    Asked cancel = stand.cancel(id);
    EXPECT_EQ(cancel.status(), 503);
    EXPECT_THAT(cancel.text(), HasSubstr("store_failed"));
  }
}

TEST(WrittenFirst, OneThatNoSlotIsFreeForHasHadNoAttempt) {
  Stand stand;
  stand.disk->gate.open();
  stand.engine.hold_after(1);
  const int64_t slots = stand.engine.stats().slots_total;
  std::vector<std::string> ids;
  for (int64_t i = 0; i < slots + 2; ++i) {
    const std::string made = stand.ask(R"({"input":"x","background":true})").text();
    ids.push_back(parse_json(made)->find("id")->as_string());
  }
  EXPECT_EQ(static_cast<int64_t>(stand.engine.asks().size()), slots);
  const auto jobs = stand.service->families.responses->store.jobs();
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ((*jobs)[i].attempts, static_cast<int64_t>(i) < slots ? 1 : 0) << i;
  }
  EXPECT_THAT(stand.show(ids.back()).text(), HasSubstr(R"("status":"queued")"));
  stand.engine.hold_after(-1);
  for (const std::string& id : ids) {
    while (stand.show(id).text().find(R"("status":"completed")") == std::string::npos)
      std::this_thread::yield();
  }
}

// A response that is deleted while a call of its store fails, each call in turn; 0: that of its state.
struct Deletion {
  const char* name;
  std::string body;
  bool runs = false;
};

TEST(WrittenFirst, ADeletionThatIsRefusedChangesNothing) {
  const Deletion cases[] = {{"stored", R"({"input":"x"})"},
                            {"made in the background", R"({"input":"x","background":true})"},
                            {"being made", R"({"input":"x","background":true})", true}};
  for (const Deletion& one : cases) {
    int refused = 0;
    for (int failing = 0; failing < 8; ++failing) {
      SCOPED_TRACE(fmt::format("{}, call {}", one.name, failing));
      Stand stand;
      stand.disk->gate.open();
      if (one.runs) stand.engine.hold_after(1);
      const std::string id = parse_json(stand.ask(one.body).text())->find("id")->as_string();
      if (!one.runs) stand.rest();
      const std::string before = stand.show(id).text();
      stand.disk->until_failure = failing;
      stand.engine.fail_erasing(failing == 0);
      const int status = stand.remove(id).status();
      stand.disk->until_failure = 0;
      stand.engine.fail_erasing(false);
      if (status == 503) {
        ++refused;
        EXPECT_EQ(stand.show(id).text(), before);
        stand.engine.hold_after(-1);
        stand.rest();
        stand.service->families.responses->store.settle();
        EXPECT_THAT(stand.show(id).text(), HasSubstr(R"("status":"completed")"));
        EXPECT_EQ(stand.ask(R"({"input":"y","previous_response_id":")" + id + "\"}").status(), 200);
        EXPECT_EQ(stand.remove(id).status(), 200);
      } else {
        EXPECT_EQ(status, 200);
      }
      stand.engine.hold_after(-1);
      stand.rest();
      stand.service->families.responses->store.settle();
      EXPECT_EQ(stand.show(id).status(), 404);
      EXPECT_FALSE((*stand.disk->documents->find(id)).has_value());
      EXPECT_TRUE(stand.disk->documents->lasting()->empty());
    }
    EXPECT_GE(refused, one.runs ? 2 : 4);
  }
}

TEST(WrittenFirst, WhoIsToldMayLetGoOfTheStoreLast) {
  const auto disk = std::make_shared<Disk>();
  auto store = std::make_shared<ResponseStore>(std::make_unique<GatedDocuments>(disk));
  store->put({.id = "resp_1", .model = "m", .json = "{}"});
  ResponseStore& held = *store;
  held.when_tried("resp_1", [store](bool written) { EXPECT_TRUE(written); });
  store.reset();
  disk->gate.open();
  disk->closed.wait(false);
  EXPECT_TRUE((*disk->documents->find("resp_1")).has_value());
}

}  // namespace
}  // namespace fulmar::testing
