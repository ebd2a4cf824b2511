// fork and exec with a death signal. Between the two only async-signal-safe calls are made.
#include "control/child_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/descriptor.h"

extern char** environ;

namespace fulmar {
namespace {

struct Pipe {
  Descriptor reader, writer;

  Status open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Error{ErrorKind::io, fmt::format("cannot open a pipe: {}", std::strerror(errno))};
    }
    reader.reset(ends[0]);
    writer.reset(ends[1]);
    return {};
  }
};

// Returns our environment with `changes` applied, as NAME=value lines.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> lines;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view name = std::string_view(*line).substr(0, std::string_view(*line).find('='));
    const bool replaced =
        std::any_of(changes.begin(), changes.end(), [&](const auto& change) { return change.first == name; });
    if (!replaced) lines.emplace_back(*line);
  }
  for (const auto& [name, value] : changes) lines.push_back(name + "=" + value);
  return lines;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Marks all files but the standard ones CLOEXEC, also those that some library opened without: in a worker, a
// listening socket of ours would keep its port taken.
void close_on_exec_from_three() {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, 3u, ~0u, 1u << 2) == 0) return;  // CLOSE_RANGE_CLOEXEC
#endif
  const long most = std::min(::sysconf(_SC_OPEN_MAX), 65536L);
  for (int file = 3; file < most; ++file) ::fcntl(file, F_SETFD, FD_CLOEXEC);
}

[[noreturn]] void give_up(int failures) {
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failures, &error, sizeof error);
  ::_exit(127);
}

[[noreturn]] void become_child(pid_t parent, int output, int failures, char* const* arguments,
                               char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the signal was set
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0) {
    give_up(failures);
  }
  close_on_exec_from_three();
  ::execve(arguments[0], arguments, environment);
  give_up(failures);
}

}  // namespace

Result<Child> spawn_child(const ChildProgram& program) {
  std::vector<std::string> words{program.program};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> lines = environment_with(program.environment);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(lines);
  Pipe output, failures;
  FULMAR_TRY(output.open());
  FULMAR_TRY(failures.open());

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return Error{ErrorKind::io, fmt::format("cannot fork: {}", std::strerror(errno))};
  if (pid == 0) {
    become_child(parent, output.writer.number(), failures.writer.number(), arguments.data(),
                 environment.data());
  }
  failures.writer.reset(-1);
  int error = 0;
  ssize_t got = 0;
  do {  // ends at once: exec closes the other end
    got = ::read(failures.reader.number(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof error)) {
    ::waitpid(pid, nullptr, 0);
    return Error{ErrorKind::io, fmt::format("cannot run {}: {}", program.program, std::strerror(error))};
  }
  ::fcntl(output.reader.number(), F_SETFL, O_NONBLOCK);
  return Child{pid, output.reader.release()};
}

std::optional<ChildExit> reap_child(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  if (WIFSIGNALED(status)) return ChildExit{.signal = WTERMSIG(status)};
  return ChildExit{.code = WEXITSTATUS(status)};
}

std::string describe(const ChildExit& exit) {
  if (exit.signal == 0) return fmt::format("exit code {}", exit.code);
  return fmt::format("killed by signal {} ({})", exit.signal, ::strsignal(exit.signal));
}

Result<std::string> own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0 || static_cast<size_t>(length) == path.size()) {
    return Error{ErrorKind::io, fmt::format("cannot read /proc/self/exe: {}", std::strerror(errno))};
  }
  std::string program(path.data(), static_cast<size_t>(length));
  // After an upgrade in place the kernel marks the old file; what lies there now is what to run.
  constexpr std::string_view kDeleted = " (deleted)";
  if (program.ends_with(kDeleted)) program.resize(program.size() - kDeleted.size());
  return program;
}

Status check_local(const std::string& host) {
  const Result<int> port = free_port(host);
  if (port.ok()) return {};
  return Error{ErrorKind::invalid,
               fmt::format("host: '{}' is no address of this machine: {}", host, port.error().text)};
}

Result<int> free_port(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), "0", &hints, &found); code != 0) {
    return Error{ErrorKind::invalid, fmt::format("host '{}': {}", host, ::gai_strerror(code))};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  Descriptor listener(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (listener.number() < 0 || ::bind(listener.number(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Error{ErrorKind::io, fmt::format("no free port on host '{}': {}", host, std::strerror(errno))};
  }
  const in_port_t port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                                       : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return static_cast<int>(ntohs(port));
}

}  // namespace fulmar
