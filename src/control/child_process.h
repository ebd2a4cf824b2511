// Starting, signalling and reaping one child process. Knows nothing of what the child does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct ChildProgram {
  std::string program;                                           // path of an executable file
  std::vector<std::string> arguments;                            // without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours, or in place of ours
};

struct Child {
  pid_t pid = -1;
  int output = -1;  // reads stdout and stderr, without blocking; the caller closes it
};

struct ChildExit {
  int code = 0;    // valid when signal is 0
  int signal = 0;  // that ended it, or 0
};

// Starts a program that reads from /dev/null and inherits no other open file of ours. It has a process group
// of its own, so that a terminal's Ctrl-C reaches us only, and is killed when the *thread* that called this
// ends: call it on one that lives as long as the process. Fails (io) where the program cannot be run.
Result<Child> spawn_child(const ChildProgram& program);

// Returns how the child ended; nothing while it runs. Does not wait.
std::optional<ChildExit> reap_child(pid_t pid);

// Returns "exit code 3" or "killed by signal 9 (Killed)".
std::string describe(const ChildExit& exit);

// Returns the path of the running program.
Result<std::string> own_program();

// Checks that `host` is an address of this machine, so that a process may listen on it; the invalid Error
// names it.
Status check_local(const std::string& host);
// Returns a TCP port of `host` on which nobody listens now; an io or invalid Error names the host.
Result<int> free_port(const std::string& host);

}  // namespace fulmar
