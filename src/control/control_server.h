// The control plane: supervisor, routing and dashboard behind one HTTP listener.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/supervisor.h"
#include "control/worker_spec.h"
#include "net/client_address.h"

namespace fulmar {

struct ControlOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 9000;  // 0: any free one
  int io_threads = 2;
  std::string password;                    // empty: nothing is checked
  std::string models_dir;                  // empty: a worker may load any file that this process may read
  bool shared_store = false;               // workers inherit the name of a store of sessions
  std::vector<std::string> allowed_hosts;  // names in Host that are this server, where there is no password
  std::vector<Network> trusted_proxies;    // whose X-Forwarded-For is believed
  // The GPUs that workers can be given, as GpuList::numbers() tells them; unset: the machine's.
  std::function<std::optional<std::vector<int64_t>>()> gpus;
  SupervisorOptions supervisor;
  std::chrono::milliseconds relay_timeout{600'000};  // for one worker's whole answer
};

class ControlServer {
 public:
  // Logs a warning when other hosts can reach it without a password.
  static Result<std::unique_ptr<ControlServer>> start(const ControlOptions& options);
  ~ControlServer();  // stop()
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  uint16_t port() const;
  std::string address() const;
  Supervisor& supervisor();

  // Refuses new connections, tells every worker to finish what it has begun, relays the rest of the answers,
  // and returns when all workers have ended: at the latest after the supervisor's grace period. Idempotent.
  void stop();

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace fulmar
