// Writes, finds and evicts stored responses. Reads and writes documents without holding a lock of this file.
#include "server/responses/response_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <future>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/responses/response_documents.h"

namespace fulmar {
namespace {

std::unique_ptr<DocumentStore> in_memory() {
  auto documents = open_document_store({}, {.lifetime = ResponseStore::kSeconds});
  FULMAR_CHECK(documents.ok());
  return std::move(*documents);
}

// While nothing is to be written, the store is checked once in this many times `retry`.
constexpr int kLooks = 60;

// Of a writing thread: set when a function that it called has destroyed its store.
thread_local bool* store_has_ended = nullptr;

const ResponseBounds& bounds_of(const std::unique_ptr<DocumentStore>& documents) {
  return documents ? ResponseStore::kInFile : ResponseStore::kInMemory;
}

}  // namespace

ResponseStore::ResponseStore(std::unique_ptr<DocumentStore> documents, std::optional<ResponseBounds> bounds,
                             std::chrono::milliseconds retry)
    : bounds_(bounds.value_or(bounds_of(documents))),
      documents_(documents ? std::move(documents) : in_memory()),
      retry_(retry),
      writer_("responses", [this] { keep_writing(); }) {}

ResponseStore::~ResponseStore() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (writer_.get_id() == std::this_thread::get_id()) {  // whoever was told was the last to hold this
    *store_has_ended = true;
    writer_.detach();
  } else {
    writer_.join();
  }
  marks_.finish();
  // Nobody can put another answer now, and the threads have ended.
  write_all();
  while (!waiting_.empty() && Clock::now() < give_up_at_) {
    std::this_thread::sleep_for(std::min<Clock::duration>(retry_, give_up_at_ - Clock::now()));
    write_all();
  }
  for (const auto& [id, waits] : waiting_)
    spdlog::error("response lost, since it cannot be stored id={}", id);
  const int64_t lost = documents_->lost() + static_cast<int64_t>(waiting_.size());
  if (lost != 0 && lost_) lost_(lost);
}

void ResponseStore::try_until(Clock::time_point give_up) {
  std::lock_guard lock(mutex_);
  give_up_at_ = give_up;
}

// Tries everything that waits once.
void ResponseStore::write_all() {
  std::vector<std::string> ids;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, waits] : waiting_) ids.push_back(id);
  }
  for (const std::string& id : ids) write(id);
}

std::string ResponseStore::trouble() {
  std::lock_guard lock(mutex_);
  return trouble_;
}

void ResponseStore::on_lost(std::function<void(int64_t)> lost) { lost_ = std::move(lost); }

// Notes how the store works. Logs when trouble begins, not each time that it is seen.
void ResponseStore::note(const Status& standing) {
  std::lock_guard lock(mutex_);
  const bool known = !trouble_.empty();
  trouble_ = standing.ok() ? std::string() : standing.error().text;
  if (!standing.ok() && !known) spdlog::error("stored responses: {}", trouble_);
}

// ---- room

DocumentBytes ResponseStore::held_by(const std::string& owner) {
  DocumentBytes own = documents_->bytes_of(owner);
  own.lasting += promised_->held(owner).own;
  return own;
}

int64_t ResponseStore::held_by_others(const std::string& owner) {
  return documents_->bytes() + promised_->held(owner).all - held_by(owner).sum();
}

std::optional<ApiError> ResponseStore::promise(const std::string& owner, int64_t bytes,
                                               PromisedRoomPtr& room) {
  std::lock_guard lock(promising_);
  const RoomLedger::Held promised = promised_->held(owner);
  auto refused = refuse_more({.lasting = promised.own}, promised.all - promised.own, bytes, bounds_.under_way,
                             "Your responses under way");
  if (!refused) {
    refused = refuse_more(held_by(owner), held_by_others(owner), bytes, bounds_.stored,
                          "Your responses that have not ended");
  }
  if (!refused) room = promise_again(owner, bytes);
  return refused;
}

PromisedRoomPtr ResponseStore::promise_again(const std::string& owner, int64_t bytes) {
  return std::make_shared<const PromisedRoom>(promised_, owner, bytes);
}

// Removes the owner's oldest answers until the bounds hold again. `more`: bytes of the new document beyond
// its promise; `newest`: all its bytes, which do not count as held before. Never removes jobs.
void ResponseStore::make_room(const std::string& owner, int64_t more, int64_t newest) {
  DocumentBytes before = held_by(owner);
  before.passing -= newest;
  const int64_t others = held_by_others(owner);
  const int64_t bytes = surplus(before, others, more, bounds_.stored);
  if (bytes == 0) return;
  auto gone = documents_->take_oldest(owner, bytes);
  if (!gone.ok()) return spdlog::error("old responses not removed: {}", gone.error().text);
  note_gone(std::move(*gone));
}

void ResponseStore::note_gone(std::vector<Document> gone) {
  std::lock_guard lock(mutex_);
  for (Document& document : gone) gone_.push_back(response_facts(std::move(document)));
}

// ---- answers

void ResponseStore::put(StoredResponse response) {
  const std::string id = response.id;
  // Replaces the estimate that was reserved by the real size.
  response.room = promise_again(response.owner, bytes_of(response));
  auto shared = std::make_shared<const StoredResponse>(std::move(response));
  {
    std::lock_guard lock(mutex_);
    Waiting& waits = waiting_[id];
    waits.response = std::move(shared);
    waits.number = ++last_number_;
    waits.failed = false;
  }
  changed_.notify_all();
}

void ResponseStore::when_tried(const std::string& id, Tried then) {
  std::unique_lock lock(mutex_);
  const auto found = waiting_.find(id);
  const bool waits = found != waiting_.end();
  if (waits && !found->second.failed) {
    found->second.told->push_back(std::move(then));
    return;
  }
  lock.unlock();
  then(!waits);
}

// Calls the functions in `told`. Uses no member after a call, which may destroy the store.
void ResponseStore::tell(std::vector<Tried>& told, bool written) {
  std::vector<Tried> now;
  {
    std::lock_guard lock(mutex_);
    now.swap(told);
  }
  for (Tried& then : now) {
    try {
      then(written);
    } catch (const std::exception& failure) {
      spdlog::error("end of a response not told reason=\"{}\"", failure.what());
    }
    then = nullptr;
  }
}

std::optional<ResponseStore::Waiting> ResponseStore::waiting(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id);
  return found == waiting_.end() ? std::nullopt : std::optional<Waiting>(found->second);
}

// Returns the oldest answer that has failed before, or that has not been tried.
ResponseStore::WaitingById::const_iterator ResponseStore::next_to_write(bool failed) const {
  auto next = waiting_.end();
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (at->second.failed != failed) continue;
    if (next == waiting_.end() || at->second.number < next->second.number) next = at;
  }
  return next;
}

// Writes new answers at once. Of those that failed, tries one each `retry_`, and as soon as one succeeds the
// next at once.
void ResponseStore::keep_writing() {
  bool ended = false;
  store_has_ended = &ended;
  Clock::time_point retry_at = Clock::now() + retry_;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (waiting_.empty()) {
      const bool idle = changed_.wait_for(lock, kLooks * retry_) == std::cv_status::timeout;
      retry_at = Clock::now() + retry_;
      if (!idle) continue;
      lock.unlock();
      note(documents_->standing());
      lock.lock();
      continue;
    }
    auto next = next_to_write(false);
    const bool again = next == waiting_.end();
    if (again && Clock::now() < retry_at) {
      changed_.wait_until(lock, retry_at);
      continue;
    }
    if (again) next = next_to_write(true);
    const std::string id = next->first;
    lock.unlock();
    const bool written = write(id);
    if (ended) return;
    lock.lock();
    if (again && !written) retry_at = Clock::now() + retry_;
    changed_.notify_all();
  }
}

bool ResponseStore::write(const std::string& id) {
  std::unique_lock lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return true;  // taken meanwhile
  const Waiting before = found->second;
  writing_ = id;
  lock.unlock();
  const bool written = try_to_write(id, before);
  lock.lock();
  writing_.clear();
  lock.unlock();
  changed_.notify_all();
  tell(*before.told, written);
  return written;
}

// Writes an answer. On any failure, exceptions too, puts it behind the others and returns false.
bool ResponseStore::try_to_write(const std::string& id, const Waiting& before) {
  try {
    if (write_one(id, before)) return true;
  } catch (const std::exception& failure) {
    spdlog::error("response not stored yet id={}: {}", id, failure.what());
  }
  std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end() || found->second.number != before.number) return false;
  found->second.number = ++last_number_;
  found->second.failed = true;
  return false;
}

// Returns false where it could not be written.
bool ResponseStore::write_one(const std::string& id, const Waiting& waits) {
  const StoredResponse& response = *waits.response;
  Document document = document_of(response);
  document.created = documents_->now();
  const Status stored = documents_->put(document);
  note(stored);
  if (!stored.ok()) {
    spdlog::error("response not stored yet id={}: {}", id, stored.error().text);
    return false;
  }
  const auto bytes = static_cast<int64_t>(document.text.size());
  make_room(response.owner, bytes - response.room->bytes(), bytes);
  (void)drop_job(id);  // in vain: the next server finds the answer
  bool taken = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = waiting_.find(id);
    taken = found == waiting_.end();
    if (!taken && found->second.number == waits.number) waiting_.erase(found);
  }
  if (taken) (void)documents_->take(id);
  return true;
}

Result<std::optional<StoredResponse>> ResponseStore::find(const std::string& id) {
  if (is_job(id)) return std::optional<StoredResponse>();
  if (const std::optional<Waiting> waits = waiting(id)) return std::optional(*waits->response);
  auto document = documents_->find(id);
  if (!document.ok()) {
    spdlog::error("response not read id={}: {}", id, document.error().text);
    return document.error();
  }
  if (!*document) return std::optional<StoredResponse>();
  FULMAR_ASSIGN(StoredResponse response, response_of(std::move(**document)));
  return std::optional(std::move(response));
}

Result<std::optional<StoredResponse>> ResponseStore::take(const std::string& id) {
  if (is_job(id)) return std::optional<StoredResponse>();
  WaitingById::node_type waited;
  {
    std::unique_lock lock(mutex_);
    waited = waiting_.extract(id);
    changed_.wait(lock, [&] { return writing_ != id; });
  }
  auto document = documents_->take(id);
  if (!document.ok()) {
    spdlog::error("response not removed id={}: {}", id, document.error().text);
    if (!waited.empty()) {
      std::lock_guard lock(mutex_);
      waiting_.insert(std::move(waited));
    }
    changed_.notify_all();
    return document.error();
  }
  if (waited.empty()) {
    if (!*document) return std::optional<StoredResponse>();
    return std::optional<StoredResponse>(response_facts(std::move(**document)));
  }
  const StoredResponse& response = *waited.mapped().response;
  StoredResponse taken{.id = response.id, .model = response.model, .json = {}, .created = response.created};
  taken.owner = response.owner;
  tell(*waited.mapped().told, false);
  return std::optional<StoredResponse>(std::move(taken));
}

void ResponseStore::forget_later(const std::string& id) {
  std::lock_guard lock(mutex_);
  gone_.push_back({.id = id, .model = {}, .json = {}});
}

std::vector<StoredResponse> ResponseStore::take_expired() {
  auto old = documents_->take_older(documents_->now() - kSeconds);
  if (!old.ok()) spdlog::error("old responses not removed: {}", old.error().text);
  if (old.ok()) note_gone(std::move(*old));
  std::lock_guard lock(mutex_);
  return std::exchange(gone_, {});
}

void ResponseStore::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return next_to_write(false) == waiting_.end(); });
}

// ---- jobs

std::optional<ApiError> ResponseStore::put_job(const ResponseJob& job) {
  Document document = document_of(job);
  document.created = documents_->now();
  PromisedRoomPtr room;  // until it is stored
  {
    const auto bytes = static_cast<int64_t>(document.text.size());
    std::lock_guard lock(promising_);
    if (auto refused = refuse_more(held_by(job.owner), held_by_others(job.owner), bytes, bounds_.stored,
                                   "Your responses that have not ended")) {
      return refused;
    }
    room = promise_again(job.owner, bytes);
  }
  const Status stored = documents_->put(document);
  if (stored.ok()) {
    room.reset();
    make_room(job.owner, 0, 0);
    return std::nullopt;
  }
  spdlog::error("response in the background not stored id={}: {}", job.id, stored.error().text);
  return ApiError{503,
                  "The response cannot be stored, so that a stop would lose it; the server's log says why",
                  {},
                  "store_failed",
                  {}};
}

Status ResponseStore::end_job(const StoredResponse& answer) {
  Document document = document_of(answer);
  document.created = documents_->now();
  FULMAR_TRY(documents_->put(document));
  (void)drop_job(answer.id);  // in vain: whoever takes it up finds the answer
  const auto bytes = static_cast<int64_t>(document.text.size());
  make_room(answer.owner, bytes, bytes);
  return {};
}

Status ResponseStore::drop_job(const std::string& id) {
  const auto gone = documents_->take(job_document_id(id));
  if (gone.ok()) return {};
  spdlog::error("response in the background not removed id={}: {}", id, gone.error().text);
  return gone.error();
}

bool ResponseStore::count_attempt(const std::string& id, int64_t attempts) {
  auto noting = std::make_shared<std::packaged_task<bool()>>([&] { return mark(id, attempts); });
  auto noted = noting->get_future();
  return marks_.post([noting] { (*noting)(); }) && noted.get();
}

bool ResponseStore::mark(const std::string& id, int64_t attempts) {
  const Status noted = documents_->set_mark(job_document_id(id), attempts);
  if (!noted.ok()) spdlog::error("attempt not noted id={}: {}", id, noted.error().text);
  return noted.ok();
}

void ResponseStore::note_attempts(const std::string& id, int64_t attempts) {
  marks_.post([this, id, attempts] { mark(id, attempts); });
}

Result<std::vector<ResponseJob>> ResponseStore::jobs() {
  std::vector<ResponseJob> jobs;
  FULMAR_ASSIGN(std::vector<Document> documents, documents_->lasting());
  for (Document& document : documents) {
    if (is_job(document.id)) jobs.push_back(job_facts(std::move(document)));
  }
  return jobs;
}

Result<std::optional<ResponseJob>> ResponseStore::find_job(const std::string& id) {
  const auto document = documents_->find(job_document_id(id));
  if (document.ok() && !*document) return std::optional<ResponseJob>();
  auto job = document.ok() ? job_of(**document) : Result<ResponseJob>(document.error());
  if (job.ok()) return std::optional(std::move(*job));
  spdlog::error("response in the background not read id={}: {}", id, job.error().text);
  if (job.error().kind != ErrorKind::corrupt) return job.error();
  FULMAR_ASSIGN(std::vector<ResponseJob> all, jobs());
  const auto facts =
      std::find_if(all.begin(), all.end(), [&](const ResponseJob& one) { return one.id == id; });
  if (facts == all.end()) return std::optional<ResponseJob>();
  facts->readable = false;
  return std::optional(std::move(*facts));
}

}  // namespace fulmar
