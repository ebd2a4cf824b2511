// The decision to restart.
#include "control/restart.h"

#include <algorithm>

namespace fulmar {

std::string_view name_of(RestartPolicy policy) {
  switch (policy) {
    case RestartPolicy::off:
      return "off";
    case RestartPolicy::on_failure:
      return "on-failure";
    case RestartPolicy::always:
      return "always";
  }
  return "off";
}

std::optional<RestartPolicy> restart_policy_named(std::string_view name) {
  for (const RestartPolicy policy : {RestartPolicy::off, RestartPolicy::on_failure, RestartPolicy::always}) {
    if (name == name_of(policy)) return policy;
  }
  return std::nullopt;
}

RestartDecision decide_restart(RestartPolicy policy, const BackOff& back_off, const EndedRun& run) {
  const bool wanted = policy == RestartPolicy::always ||
                      (policy == RestartPolicy::on_failure && run.failed) || run.device_failed;
  if (run.asked_for || !wanted) return {};
  RestartDecision decision{.restart = true};
  decision.short_runs = run.lasted >= back_off.stable_after ? 1 : run.short_runs_before + 1;
  decision.delay = std::min(back_off.first, back_off.most);
  for (int i = 1; i < decision.short_runs && decision.delay < back_off.most; ++i) {
    decision.delay = std::min(2 * decision.delay, back_off.most);
  }
  return decision;
}

}  // namespace fulmar
