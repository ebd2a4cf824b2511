#include "cache/store_writer.h"

#include <utility>

#include "base/log.h"

namespace fulmar {

namespace {

constexpr auto kRetryAfter = std::chrono::seconds(1);
// States kept in memory while the store refuses them; beyond, the oldest id gives way.
constexpr size_t kMostQueued = 1024;

}  // namespace

StoreWriter::StoreWriter(std::unique_ptr<SessionStore> store, std::string fingerprint)
    : store_(std::move(store)), fingerprint_(std::move(fingerprint)), thread_([this] { run(); }) {}

StoreWriter::~StoreWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StoreWriter::put(SessionWrite write) {
  {
    std::lock_guard lock(mutex_);
    queued_[write.id] = std::move(write.blob);
    if (queued_.size() > kMostQueued) {
      spdlog::error("session store: {} states wait for it; '{}' is given up", queued_.size(),
                    queued_.begin()->first);
      queued_.erase(queued_.begin());
    }
  }
  changed_.notify_all();
}

Result<std::optional<StateBlob>> StoreWriter::load(const std::string& id) {
  {
    std::lock_guard lock(mutex_);
    for (const auto* states : {&queued_, &writing_}) {
      const auto found = states->find(id);
      if (found != states->end()) return std::optional<StateBlob>(*found->second);
    }
  }
  std::lock_guard lock(store_mutex_);
  return store_->load(fingerprint_, id);
}

Result<int64_t> StoreWriter::erase(const std::string& id, bool and_branches) {
  const std::string branch = id + ":";
  const auto concerned = [&](const std::string& other) {
    return other == id || (and_branches && other.compare(0, branch.size(), branch) == 0);
  };
  // The store's lock first: a transaction under way must not bring the row back afterwards.
  std::lock_guard store_lock(store_mutex_);
  {
    std::lock_guard lock(mutex_);
    std::erase_if(queued_, [&](const auto& entry) { return concerned(entry.first); });
  }
  return store_->erase(fingerprint_, id, and_branches);
}

Result<int64_t> StoreWriter::newest_turn(const std::string& id) {
  if (!store_->shared()) return int64_t{0};
  std::lock_guard lock(store_mutex_);
  return store_->newest_turn(fingerprint_, id);
}

Result<std::vector<StoredSession>> StoreWriter::list() {
  std::lock_guard lock(store_mutex_);
  return store_->list(fingerprint_);
}

void StoreWriter::flush() {
  std::unique_lock lock(mutex_);
  const int64_t failures = failures_;
  changed_.wait(lock, [&] { return (queued_.empty() && writing_.empty()) || failures_ > failures; });
}

void StoreWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queued_.empty(); });
    if (queued_.empty()) return;
    writing_ = std::exchange(queued_, {});
    std::vector<SessionWrite> writes;
    for (const auto& [id, blob] : writing_) writes.push_back({id, blob});
    lock.unlock();
    Status stored;
    {
      std::lock_guard store_lock(store_mutex_);
      stored = store_->store(writes);
    }
    lock.lock();
    if (!stored.ok()) {
      failures_++;
      spdlog::error("{}; {} sessions stay in memory", stored.error().text, writing_.size());
      for (auto& [id, blob] : writing_)
        queued_.emplace(id, std::move(blob));  // a newer turn queued since wins
    }
    writing_.clear();
    changed_.notify_all();
    if (!stored.ok()) {
      if (stopping_) return;
      changed_.wait_for(lock, kRetryAfter, [&] { return stopping_; });
    }
  }
}

}  // namespace fulmar
