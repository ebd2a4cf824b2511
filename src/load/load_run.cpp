#include "load/load_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "net/http_client.h"
#include "net/url.h"

namespace fulmar {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kProgressEvery = std::chrono::milliseconds(500);
constexpr std::chrono::hours kLongestAnswer{6};

class Run {
 public:
  explicit Run(const LoadTarget& target) : target_(target) {}

  void send(LoadRequest request) {
    // A deque: readers stay where they are while more are added; each is used by the client's thread only.
    CompletionReader& reader = readers_.emplace_back(now());
    client_.send(request_of(std::move(request)), callbacks_of(reader));
  }

  // Waits until all requests sent so far have ended, or until `until`. Returns whether they have ended.
  bool wait(Clock::time_point until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, until, [&] { return ended_ == readers_.size(); });
  }

  size_t ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  Clock::time_point start() const { return start_; }

  std::vector<AnswerRecord> records() const {
    std::vector<AnswerRecord> records;
    for (const CompletionReader& reader : readers_) records.push_back(reader.record());
    return records;
  }

 private:
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  ClientRequest request_of(LoadRequest request) const;
  ClientCallbacks callbacks_of(CompletionReader& reader);

  const LoadTarget& target_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t ended_ = 0;
  std::deque<CompletionReader> readers_;
  HttpClient client_;  // last: its thread ends before what it writes to goes
};

ClientRequest Run::request_of(LoadRequest request) const {
  ClientRequest sent;
  sent.method = "POST";
  sent.host = target_.host;
  sent.port = target_.port;
  sent.target = target_.path;
  sent.headers = target_.headers;
  sent.headers.set("Content-Type", "application/json");
  sent.body = std::move(request.body);
  sent.total_timeout = kLongestAnswer;
  return sent;
}

ClientCallbacks Run::callbacks_of(CompletionReader& reader) {
  return {.on_head = [&reader](int status, const Headers&) { reader.head(status); },
          .on_data = [this, &reader](std::string_view bytes) { reader.feed(bytes, now()); },
          .on_end =
              [this, &reader](const Status& outcome) {
                reader.end(outcome.ok() ? std::string_view() : std::string_view(outcome.error().text), now());
                std::lock_guard lock(mutex_);
                ended_++;
                changed_.notify_one();
              }};
}

}  // namespace

Result<LoadTarget> load_target(const std::string& url) {
  FULMAR_ASSIGN(const Url parts, parse_url(url));
  LoadTarget target{.host = parts.host, .port = parts.port};
  if (parts.target != "/") target.path = parts.target;
  return target;
}

std::vector<AnswerRecord> run_load(const LoadTarget& target, std::vector<LoadRequest> requests,
                                   const std::function<void(size_t ended)>& progress) {
  Run run(target);
  for (LoadRequest& request : requests) {
    const auto due =
        run.start() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.at));
    while (Clock::now() < due) {
      std::this_thread::sleep_until(std::min(due, Clock::now() + kProgressEvery));
      if (progress) progress(run.ended());
    }
    run.send(std::move(request));
  }
  while (!run.wait(Clock::now() + kProgressEvery)) {
    if (progress) progress(run.ended());
  }
  if (progress) progress(run.ended());
  return run.records();
}

}  // namespace fulmar
