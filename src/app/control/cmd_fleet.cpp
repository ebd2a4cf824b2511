// fulmar fleet haproxy: keeps HAProxy's servers equal to the directory of workers.
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "app/core/commands.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "cache/worker_directory.h"
#include "control/haproxy.h"

namespace fulmar {
namespace {

struct FleetFlags {
  std::string directory = "redis://127.0.0.1:6379";
  std::string socket = "/run/haproxy/fulmar.sock";
  std::string backend = "workers";
  double every_seconds = 2;
  bool once = false;
};

// Sends one command to HAProxy's admin socket; returns its answer.
Result<std::string> tell_haproxy(const std::string& path, const std::string& command) {
  const auto failed = [&](const char* what) {
    return Error{ErrorKind::unavailable,
                 fmt::format("HAProxy at {}: {}: {}", path, what, std::strerror(errno))};
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{ErrorKind::invalid, fmt::format("socket path of {} bytes, at most {} wanted", path.size(),
                                                 sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor door{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(door.number(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (door.number() < 0 ||
      ::connect(door.number(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return failed("cannot connect");
  }
  const std::string line = command + "\n";
  if (::send(door.number(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    return failed("cannot write");
  }
  std::string answer;
  std::array<char, 16384> bytes;
  ssize_t got = 0;
  while ((got = ::read(door.number(), bytes.data(), bytes.size())) > 0) {
    answer.append(bytes.data(), static_cast<size_t>(got));
  }
  if (got < 0) return failed("cannot read");
  return answer;
}

// After the directory was unreachable, how long workers have to reappear before they are removed.
constexpr std::chrono::seconds kComeBack{10};

Status align(WorkerDirectory& directory, const FleetFlags& flags, bool all_may_be_gone) {
  FULMAR_ASSIGN(const auto records, directory.workers());
  std::vector<WantedServer> wanted;
  for (const WorkerRecord& record : records) {
    wanted.push_back({record.name, record.host, record.port, record.draining});
  }
  FULMAR_ASSIGN(const std::string state, tell_haproxy(flags.socket, "show servers state " + flags.backend));
  const std::vector<KnownServer> known = read_servers(state);
  if (!all_may_be_gone) keep_missing(wanted, known);
  for (const std::string& command : haproxy_commands(flags.backend, wanted, known)) {
    FULMAR_ASSIGN(std::string answer, tell_haproxy(flags.socket, command));
    while (!answer.empty() && answer.back() == '\n') answer.pop_back();
    spdlog::info("haproxy: {}{}{}", command, answer.empty() ? "" : ": ", answer);
  }
  return {};
}

// Keeps servers aligned. While the directory is unreachable nothing changes: workers may serve unseen.
Result<int> follow(const FleetFlags& flags) {
  FULMAR_ASSIGN(const RedisAddress address, usable_redis_address(flags.directory));
  const auto directory = redis_directory(address);
  auto patient_until = std::chrono::steady_clock::time_point::min();
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const Status aligned = align(*directory, flags, now >= patient_until);
    if (!aligned.ok()) patient_until = now + kComeBack;
    if (flags.once && !aligned.ok()) return aligned.error();
    if (flags.once) return 0;
    if (!aligned.ok()) spdlog::warn("{}", aligned.error().text);
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.every_seconds));
  }
}

}  // namespace

void add_fleet(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<FleetFlags>();
  auto* fleet = app.add_subcommand("fleet", "Adapters for workers on several machines");
  fleet->require_subcommand(1);
  auto* haproxy =
      fleet->add_subcommand("haproxy", "Keep HAProxy's servers equal to the directory of workers");
  haproxy->add_option("--directory", flags->directory, "redis:// or rediss:// address of the directory")
      ->envname("FULMAR_DIRECTORY")
      ->capture_default_str();
  haproxy->add_option("--socket", flags->socket, "HAProxy's admin socket")->capture_default_str();
  haproxy->add_option("--backend", flags->backend, "name of the backend")->capture_default_str();
  haproxy->add_option("--every", flags->every_seconds, "seconds between two looks")
      ->check(within(0.1, 3600.0))
      ->capture_default_str();
  haproxy->add_flag("--once", flags->once, "look once, then end");
  haproxy->callback([flags, &chosen] { chosen = [flags] { return exit_code(follow(*flags)); }; });
}

}  // namespace fulmar
