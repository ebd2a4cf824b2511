#include "engine/ask_rules.h"

#include <cmath>
#include <string>

namespace fulmar {

namespace {

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

Status check_ids(const char* what, const std::vector<int32_t>& tokens, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return invalid("the " + std::string(what) + " has token id " + std::to_string(token) +
                     "; wanted 0 to " + std::to_string(vocabulary - 1));
    }
  }
  return {};
}

Status check_prompt(const Ask& ask, const AskLimits& limits) {
  if (ask.prompt.empty()) return invalid("the prompt has no tokens; wanted at least 1");
  for (const std::vector<int32_t>* tokens : {&ask.prompt, &ask.state.continuing}) {
    const auto count = static_cast<int64_t>(tokens->size());
    if (limits.max_prompt_tokens > 0 && count > limits.max_prompt_tokens) {
      return invalid("the prompt has " + std::to_string(count) + " tokens; this server takes at most " +
                     std::to_string(limits.max_prompt_tokens));
    }
    FULMAR_TRY(check_ids("prompt", *tokens, limits.vocabulary));
  }
  return {};
}

Status check_stops(const StopRules& stop) {
  size_t bytes = 0;
  for (const std::string& text : stop.texts) bytes += text.size();
  if (bytes > kMostStopBytes) {
    return invalid("the stop texts have " + std::to_string(bytes) + " bytes together; wanted at most " +
                   std::to_string(kMostStopBytes));
  }
  if (stop.ids.size() > kMostStopIds) {
    return invalid("there are " + std::to_string(stop.ids.size()) + " stop ids; wanted at most " +
                   std::to_string(kMostStopIds));
  }
  return {};
}

Status check_sessions(const StateLink& link) {
  for (const std::string* id : {&link.read_session, &link.write_session}) {
    if (id->size() > kMostSessionBytes) {
      return invalid("the session's id has " + std::to_string(id->size()) + " bytes; wanted at most " +
                     std::to_string(kMostSessionBytes));
    }
  }
  return {};
}

Status check_mixture(const Ask& ask, int64_t most_slots) {
  const std::vector<MixtureMember>& members = ask.state.mixture;
  if (members.empty()) return {};
  const auto slots = static_cast<int64_t>(members.size());
  double sum = 0;
  for (const MixtureMember& member : members) sum += member.weight;
  if (slots > most_slots) {
    return invalid("a mixture of " + std::to_string(slots) + " states takes as many slots; this server has " +
                   std::to_string(most_slots));
  }
  if (!std::isfinite(sum) || sum == 0) {
    return invalid("the weights of a mixture add up to " + std::to_string(sum) +
                   "; wanted another sum than 0");
  }
  if (!ask.state.read_session.empty() || !ask.state.write_session.empty()) {
    return invalid("a mixture of states has no single state that a session could keep");
  }
  if (ask.score_prompt || ask.embed) {
    return invalid("the prompt of a mixture of states cannot be scored or embedded");
  }
  return {};
}

}  // namespace

Status check_max_tokens(int64_t max_tokens) {
  // Sums over all rows then fit 64 bits.
  constexpr int64_t kMostTokens = int64_t{1} << 40;
  if (max_tokens >= 0 && max_tokens <= kMostTokens) return {};
  return invalid("max_tokens is " + std::to_string(max_tokens) + "; wanted 0 to " +
                 std::to_string(kMostTokens));
}

Status check_ask(const Ask& ask, const AskLimits& limits) {
  FULMAR_TRY(check_max_tokens(ask.max_tokens));
  FULMAR_TRY(check_prompt(ask, limits));
  FULMAR_TRY(check_ids("prediction", ask.prediction, limits.vocabulary));
  FULMAR_TRY(check_stops(ask.stop));
  FULMAR_TRY(check_sessions(ask.state));
  FULMAR_TRY(check_mixture(ask, limits.slots));
  for (const auto& [token, bias] : ask.sampling.logit_bias) {
    if (token < 0 || token >= limits.vocabulary) {
      return invalid("logit_bias names token id " + std::to_string(token) + "; wanted 0 to " +
                     std::to_string(limits.vocabulary - 1));
    }
  }
  return {};
}

}  // namespace fulmar
