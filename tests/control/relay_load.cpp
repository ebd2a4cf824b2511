// How much later events arrive through the control plane than straight from a worker:
//   fulmar_relay_load [streams] [events per stream] [milliseconds between two]
// Client, control plane and a worker that writes the time into its events are on one machine. Not a test.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "control/control_server.h"
#include "net/http_client.h"
#include "support/folders.h"

namespace {

using namespace fulmar;
using Clock = std::chrono::steady_clock;

struct Load {
  int streams = 1000;
  int events = 20;
  int pace_ms = 1000;
};

// Delays of all events of one run, in milliseconds.
class Watch {
 public:
  explicit Watch(int streams) : left_(streams) {}

  void take(std::string_view bytes) {
    const int64_t now = Clock::now().time_since_epoch().count();
    const size_t at = bytes.find("\"text\":\"");
    if (at == std::string_view::npos) return;  // the end of the stream
    int64_t written = 0;
    std::from_chars(bytes.data() + at + 8, bytes.data() + bytes.size(), written);
    delays_.push_back(static_cast<double>(now - written) * 1e-6);
  }
  void end(const Status& outcome) {
    std::lock_guard lock(mutex_);
    if (!outcome.ok()) failures_++;
    left_--;
    changed_.notify_all();
  }
  // Delays in ascending order once all streams have ended.
  std::vector<double> wait(int& failures) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == 0; });
    failures = failures_;
    std::sort(delays_.begin(), delays_.end());
    return delays_;
  }

 private:
  std::vector<double> delays_;  // the client's thread only, until all have ended
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_, failures_ = 0;
};

double quantile(const std::vector<double>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double measure(const char* name, uint16_t port, const std::string& target, const Load& load) {
  Watch watch(load.streams);
  HttpClient client;
  for (int i = 0; i < load.streams; ++i) {
    client.send({.method = "POST",
                 .host = "127.0.0.1",
                 .port = port,
                 .target = target,
                 .body = fmt::format(R"({{"prompt":"clock","stream":true,"max_tokens":{},"pace_ms":{}}})",
                                     load.events, load.pace_ms),
                 .connect_timeout = std::chrono::minutes(1)},
                {.on_head = {},
                 .on_data = [&](std::string_view bytes) { watch.take(bytes); },
                 .on_end = [&](Status outcome) { watch.end(outcome); }});
    std::this_thread::sleep_for(std::chrono::microseconds(load.pace_ms * 1000 / load.streams));
  }
  int failures = 0;
  const std::vector<double> delays = watch.wait(failures);
  const double median = quantile(delays, 0.5);
  fmt::print("{:8} {} streams, {} events, {} failed: p50 {:.3f} ms, p90 {:.3f}, p99 {:.3f}\n", name,
             load.streams, delays.size(), failures, median, quantile(delays, 0.9), quantile(delays, 0.99));
  return median;
}

int run(const Load& load) {
  const auto model = std::filesystem::temp_directory_path() / fmt::format("relay_load_{}.pth", ::getpid());
  std::ofstream(model) << "x";
  ControlOptions options{.port = 0};
  options.supervisor.program = (support::build_folder() / "fulmar_fake_worker").string();
  auto control = ControlServer::start(options);
  if (!control.ok()) return 1;
  const auto started = fetch("POST", "http://" + (*control)->address() + "/api/workers/start", {},
                             R"({"model_path":")" + model.string() + "\"}");
  if (!started.ok() || started->status != 200) return 1;
  Fleet fleet;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    fleet = *(*control)->supervisor().fleet();
  } while (fleet.empty() || fleet[0]->phase != WorkerPhase::ready);
  const auto worker_port = static_cast<uint16_t>(fleet[0]->spec.port);
  const double direct = measure("direct", worker_port, "/v1/completions", load);
  const double relayed = measure("relayed", (*control)->port(), "/v1/completions", load);
  fmt::print("added at the median: {:.3f} ms\n", relayed - direct);
  std::filesystem::remove(model);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Load load;
  if (argc > 1) load.streams = std::atoi(argv[1]);
  if (argc > 2) load.events = std::atoi(argv[2]);
  if (argc > 3) load.pace_ms = std::atoi(argv[3]);
  return run(load);
}
