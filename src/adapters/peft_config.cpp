#include "adapters/peft_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "adapters/adapter.h"
#include "adapters/config_json.h"
#include "files/bytes.h"

namespace fulmar {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kFile = "adapter_config.json";

Error unsupported(std::string text) { return {ErrorKind::unsupported, fmt::format("{}: {}", kFile, text)}; }

bool equal_without_case(std::string_view text, std::string_view upper) {
  return std::equal(text.begin(), text.end(), upper.begin(), upper.end(),
                    [](char c, char u) { return (c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c) == u; });
}

// Returns whether a member that is set makes the adapter something else than it says in others.
bool changes_the_method(std::string_view name) {
  constexpr std::string_view kRefused[] = {"alora_invocation_tokens", "target_parameters",
                                           "layer_replication", "trainable_token_indices", "lora_bias"};
  constexpr std::string_view kKnownUse[] = {"use_rslora", "use_dora"};
  // What another member chooses, or what matters to training and loading alone.
  constexpr std::string_view kHarmless[] = {"loftq_config", "eva_config", "corda_config", "lora_ga_config",
                                            "runtime_config"};
  const auto in = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  if (in(kRefused)) return true;
  if (name.starts_with("use_")) return !in(kKnownUse);
  return name.ends_with("_config") && !in(kHarmless);
}

Status refuse_unknown(const ConfigJson& config, bool lora) {
  FULMAR_ASSIGN(const std::string bias, config.text("bias", "none"));
  if (bias != "none") return unsupported(fmt::format("bias is '{}'; wanted 'none'", printable(bias)));
  for (const dom::key_value_pair member : config.object()) {
    const bool refused = changes_the_method(member.key) || (lora && member.key == "fan_in_fan_out");
    if (refused && config.truthy(member.key)) {
      return unsupported(fmt::format("{} {} is not supported", printable(member.key),
                                     printable(simdjson::minify(member.value))));
    }
  }
  return {};
}

// Checks that training left the base model as it was.
Status check_init(const ConfigJson& config) {
  constexpr std::string_view kPlain[] = {"gaussian", "eva", "orthogonal", "mica"};
  const auto init = config.find("init_lora_weights");
  if (!init || init->is_bool()) return {};
  FULMAR_ASSIGN(const std::string name, config.text("init_lora_weights"));
  if (std::find(std::begin(kPlain), std::end(kPlain), name) != std::end(kPlain)) return {};
  return unsupported(
      fmt::format("init_lora_weights '{}' says that training changed the base model; save the adapter again "
                  "converted to plain LoRA",
                  printable(name)));
}

Status check_pattern(std::string_view name, std::string_view key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
  if (plain) return {};
  return unsupported(
      fmt::format("{} has the pattern '{}'; wanted letters, digits, '_' and '.'", name, printable(key)));
}

// Reads {pattern: number}.
template <class Number>
Status read_patterns(const ConfigJson& config, std::string_view name,
                     std::vector<std::pair<std::string, Number>>& patterns) {
  const auto table = config.find(name);
  if (!table) return {};
  dom::object object;
  if (table->get(object) != simdjson::SUCCESS) {
    return Error{ErrorKind::corrupt, fmt::format("{}: {} is no object", kFile, name)};
  }
  for (const dom::key_value_pair member : object) {
    FULMAR_TRY(check_pattern(name, member.key));
    Number number = 0;
    if (!member.value.is_number() || member.value.get(number) != simdjson::SUCCESS) {
      return Error{ErrorKind::corrupt,
                   fmt::format("{}: {} of '{}' is {}; wanted a number", kFile, name, printable(member.key),
                               printable(simdjson::minify(member.value)))};
    }
    patterns.emplace_back(std::string(member.key), number);
  }
  return {};
}

// Returns the number of the first pattern that the module's path ends in.
template <class Number>
Number at(const std::vector<std::pair<std::string, Number>>& patterns, std::string_view module,
          Number other) {
  for (const auto& [pattern, number] : patterns) {
    if (module == pattern || module.ends_with("." + pattern)) return number;
  }
  return other;
}

Status read_lora(const ConfigJson& config, PeftConfig& read) {
  FULMAR_TRY(check_init(config));
  FULMAR_ASSIGN(read.rank, config.integer("r", 8));
  FULMAR_ASSIGN(read.alpha, config.number("lora_alpha", 8.0));
  read.root_scale = config.truthy("use_rslora");
  read.method = config.truthy("use_dora") ? PeftMethod::dora : PeftMethod::lora;
  FULMAR_TRY(read_patterns(config, "rank_pattern", read.rank_of));
  return read_patterns(config, "alpha_pattern", read.alpha_of);
}

Status read_miss(const ConfigJson& config, PeftConfig& read) {
  FULMAR_ASSIGN(read.rank, config.integer("r", 64));
  read.method = PeftMethod::miss;
  const auto init = config.find("init_weights");
  if (!init || init->is_bool()) return {};
  FULMAR_ASSIGN(const std::string name, config.text("init_weights"));
  if (name == "bat") {
    read.method = PeftMethod::bat;
    return {};
  }
  if (name != "mini") {
    return unsupported(
        fmt::format("init_weights is '{}'; wanted true, false, 'bat' or 'mini'", printable(name)));
  }
  read.method = PeftMethod::miss_mini;
  FULMAR_ASSIGN(read.mini_rank, config.integer("mini_r", 1));
  if (read.mini_rank >= 1) return {};
  return Error{ErrorKind::corrupt, fmt::format("{}: mini_r is {}; wanted at least 1", kFile, read.mini_rank)};
}

}  // namespace

int64_t PeftConfig::rank_at(std::string_view module) const { return at(rank_of, module, rank); }

double PeftConfig::scale_at(std::string_view module) const {
  if (method != PeftMethod::lora && method != PeftMethod::dora) return 1;
  const auto r = static_cast<double>(rank_at(module));
  return at(alpha_of, module, alpha) / (root_scale ? std::sqrt(r) : r);
}

Result<PeftConfig> read_peft_config(const std::string& text) {
  FULMAR_ASSIGN(const ConfigJson config, ConfigJson::parse(kFile, text));
  FULMAR_ASSIGN(const std::string type, config.text("peft_type", ""));
  const bool lora = equal_without_case(type, "LORA");
  const bool miss = equal_without_case(type, "MISS") || equal_without_case(type, "BONE");
  if (!lora && !miss) {
    return unsupported(fmt::format("peft_type is '{}'; wanted LORA, MISS or BONE", printable(type)));
  }
  FULMAR_TRY(refuse_unknown(config, lora));
  PeftConfig read;
  FULMAR_TRY(lora ? read_lora(config, read) : read_miss(config, read));
  if (read.rank < 1 || read.rank > kMostAdapterRank) {
    return Error{ErrorKind::corrupt,
                 fmt::format("{}: r is {}; wanted 1 to {}", kFile, read.rank, kMostAdapterRank)};
  }
  for (const auto& [pattern, rank] : read.rank_of) {
    if (rank >= 1 && rank <= kMostAdapterRank) continue;
    return Error{ErrorKind::corrupt, fmt::format("{}: rank_pattern of '{}' is {}; wanted 1 to {}", kFile,
                                                 pattern, rank, kMostAdapterRank)};
  }
  return read;
}

}  // namespace fulmar
