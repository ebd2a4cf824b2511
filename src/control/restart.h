// Restart policy with exponential backoff: whether and when a worker that ended is started again. Pure:
// knows no process and no clock.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace fulmar {

enum class RestartPolicy { off, on_failure, always };

// Returns "off", "on-failure" or "always".
std::string_view name_of(RestartPolicy policy);
std::optional<RestartPolicy> restart_policy_named(std::string_view name);

struct BackOff {
  std::chrono::milliseconds first{1'000};          // after the first short run; doubles with each further one
  std::chrono::milliseconds most{60'000};          // and never exceeds this
  std::chrono::milliseconds stable_after{60'000};  // a run as long as this begins the count anew
};

struct EndedRun {
  bool asked_for = false;      // stopped by us: never started again
  bool failed = false;         // exit code other than 0, or a signal
  bool device_failed = false;  // kDeviceErrorExit: started again under every policy
  std::chrono::milliseconds lasted{0};
  int short_runs_before = 0;  // in a row, without this one
};

struct RestartDecision {
  bool restart = false;
  std::chrono::milliseconds delay{0};
  int short_runs = 0;  // to be handed in as short_runs_before next time
};

RestartDecision decide_restart(RestartPolicy policy, const BackOff& back_off, const EndedRun& run);

}  // namespace fulmar
