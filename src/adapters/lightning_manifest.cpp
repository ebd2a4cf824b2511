#include "adapters/lightning_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "adapters/adapter.h"
#include "adapters/config_json.h"
#include "adapters/names.h"
#include "files/bytes.h"

namespace fulmar {
namespace {

namespace dom = simdjson::dom;

constexpr int64_t kMostLayers = 1024, kMostWidth = int64_t{1} << 20;
constexpr std::string_view kTargets[] = {"att.receptance.weight", "att.key.weight", "att.value.weight",
                                         "att.output.weight",     "ffn.key.weight", "ffn.value.weight"};

bool is_target(std::string_view part) {
  return std::find(std::begin(kTargets), std::end(kTargets), part) != std::end(kTargets);
}

Error corrupt(std::string_view what, std::string_view text) {
  return {ErrorKind::corrupt, fmt::format("{}: {}", what, text)};
}
Error corrupt(std::string_view text) { return corrupt("manifest", text); }

Status check_said(const ConfigJson& config, std::string_view name, std::string_view wanted) {
  FULMAR_ASSIGN(const std::string found, config.text(name));
  if (found == wanted) return {};
  return Error{ErrorKind::unsupported,
               fmt::format("manifest: {} is '{}'; wanted '{}'", name, printable(found), wanted)};
}

Result<std::string> read_digest(const ConfigJson& config, std::string_view name) {
  FULMAR_ASSIGN(std::string digest, config.text(name));
  const bool hex = std::all_of(digest.begin(), digest.end(),
                               [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (hex && digest.size() == 64) return digest;
  return corrupt(config.what(),
                 fmt::format("{} is '{}'; wanted 64 hexadecimal digits", name, printable(digest)));
}

Result<DType> read_dtype(const ConfigJson& config) {
  FULMAR_ASSIGN(const std::string name, config.text("dtype"));
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  return Error{ErrorKind::unsupported,
               fmt::format("manifest: dtype is '{}'; wanted 'bfloat16' or 'float16'", printable(name))};
}

Result<double> read_finite(const ConfigJson& config, std::string_view name) {
  FULMAR_ASSIGN(const double number, config.number(name));
  if (std::isfinite(number)) return number;
  return corrupt(config.what(), fmt::format("{} is {}; wanted a finite number", name, number));
}

Result<int64_t> read_rank(const ConfigJson& config) {
  FULMAR_ASSIGN(const int64_t rank, config.integer("rank"));
  if (rank >= 1 && rank <= kMostAdapterRank) return rank;
  return corrupt(config.what(), fmt::format("rank is {}; wanted 1 to {}", rank, kMostAdapterRank));
}

Result<LightningTarget> read_target(dom::element element, int64_t rank) {
  const auto wrong = [&](std::string_view wanted) {
    return corrupt(fmt::format("target {}; wanted {}", printable(simdjson::minify(element)), wanted));
  };
  LightningTarget target;
  std::string_view name, part;
  int64_t layer = 0, width = 0;
  if (element.at_key("name").get(name) != simdjson::SUCCESS ||
      element.at_key("target").get(part) != simdjson::SUCCESS ||
      element.at_key("layer").get(layer) != simdjson::SUCCESS ||
      element.at_key("in_features").get(target.inputs) != simdjson::SUCCESS ||
      element.at_pointer("/shape/0").get(target.outputs) != simdjson::SUCCESS ||
      element.at_pointer("/shape/1").get(width) != simdjson::SUCCESS ||
      element.at_pointer("/shape/2").error() == simdjson::SUCCESS) {
    return wrong("name, target, layer, in_features and shape [out, rank]");
  }
  if (!is_target(part)) {
    return wrong("a target that MiSS packages have, such as 'att.key.weight'");
  }
  if (layer < 0 || layer >= kMostLayers) return wrong(fmt::format("a layer below {}", kMostLayers));
  target.weight = fmt::format("blocks.{}.{}", layer, part);
  if (name != target.weight + ".D") return wrong(fmt::format("the name '{}.D'", target.weight));
  if (width != rank) return wrong(fmt::format("shape [out, {}], the rank of the manifest", rank));
  for (const int64_t size : {target.outputs, target.inputs}) {
    if (size < 1 || size > kMostWidth) return wrong(fmt::format("widths from 1 to {}", kMostWidth));
  }
  return target;
}

Status read_targets(const ConfigJson& config, LightningManifest& manifest) {
  dom::array list;
  if (config.object().at_key("targets").get(list) != simdjson::SUCCESS || list.size() == 0) {
    return corrupt("targets is no list with at least one member");
  }
  for (const dom::element element : list) {
    FULMAR_ASSIGN(LightningTarget target, read_target(element, manifest.rank));
    manifest.targets.push_back(std::move(target));
  }
  return {};
}

// Returns the targets of the tensors <weight>.D.master; their inputs are 0 where no target's outputs say
// them.
Result<std::vector<LightningTarget>> targets_of(std::span<const StoredTensor> tensors) {
  constexpr std::string_view kMaster = ".D.master", kHidden = "ffn.key.weight";
  std::vector<LightningTarget> targets;
  int64_t channels = 0, hidden = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string_view name = tensor.name;
    if (!name.ends_with(kMaster)) continue;
    LightningTarget target{std::string(name.substr(0, name.size() - kMaster.size()))};
    const auto block = layer_name(target.weight);
    if (!is_lightning_target(target.weight)) {
      return Error{ErrorKind::corrupt,
                   fmt::format("'{}' is no target that MiSS packages have", printable(name))};
    }
    target.outputs = tensor.shape.empty() ? 0 : tensor.shape[0];
    (block->rest == kHidden ? hidden : channels) = target.outputs;
    targets.push_back(std::move(target));
  }
  for (LightningTarget& target : targets) {
    target.inputs = target.weight.ends_with("ffn.value.weight") ? hidden : channels;
  }
  return targets;
}

std::string number_text(double value) {
  const std::string text = fmt::format("{:.17g}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

Result<LightningManifest> read_lightning_manifest(const std::string& text) {
  FULMAR_ASSIGN(const ConfigJson config, ConfigJson::parse("manifest", text));
  FULMAR_ASSIGN(const int64_t format, config.integer("format_version"));
  if (format != 1) {
    return Error{ErrorKind::unsupported, fmt::format("manifest: format_version is {}; wanted 1", format)};
  }
  FULMAR_TRY(check_said(config, "method", "miss"));
  FULMAR_TRY(check_said(config, "kind", "inference_adapter"));
  FULMAR_TRY(check_said(config, "layout", "modulo_rank_zero_pad"));
  LightningManifest manifest;
  FULMAR_ASSIGN(manifest.dtype, read_dtype(config));
  FULMAR_ASSIGN(manifest.rank, read_rank(config));
  FULMAR_TRY(read_finite(config, "alpha"));
  FULMAR_ASSIGN(manifest.scale, read_finite(config, "scale"));
  FULMAR_ASSIGN(const std::string source, config.text("tensor_source", "D"));
  if (source != "D" && source != "master") {
    return Error{ErrorKind::unsupported,
                 fmt::format("manifest: tensor_source is '{}'; wanted 'master' or none", printable(source))};
  }
  manifest.masters = source == "master";
  FULMAR_ASSIGN(manifest.base_fingerprint, read_digest(config, "base_fingerprint"));
  FULMAR_ASSIGN(manifest.content_version, read_digest(config, "content_version"));
  FULMAR_TRY(read_targets(config, manifest));
  manifest.hashed = jsoncpp_text(config.object(), {"content_version", "tensor_source"});
  return manifest;
}

Result<LightningManifest> manifest_of_checkpoint(const std::string& text, const std::string& digest,
                                                 std::span<const StoredTensor> tensors) {
  constexpr std::string_view kFile = "checkpoint.json", kKind = "miss_training_checkpoint";
  FULMAR_ASSIGN(const ConfigJson whole, ConfigJson::parse(kFile, text));
  FULMAR_ASSIGN(const std::string kind, whole.text("kind"));
  if (kind != kKind) {
    return Error{ErrorKind::unsupported,
                 fmt::format("{}: kind is '{}'; wanted '{}'", kFile, printable(kind), kKind)};
  }
  FULMAR_ASSIGN(const std::string wanted, whole.text("tensor_digest"));
  if (wanted != digest) {
    return Error{ErrorKind::corrupt, fmt::format("the file has SHA-256 {}; {} says tensor_digest {}", digest,
                                                 kFile, printable(wanted))};
  }
  const auto member = whole.find("config");
  FULMAR_ASSIGN(const ConfigJson config,
                ConfigJson::parse("config of checkpoint.json", member ? simdjson::minify(*member) : "{}"));
  LightningManifest manifest;
  LightningFacts facts;
  FULMAR_ASSIGN(facts.rank, read_rank(config));
  FULMAR_ASSIGN(facts.alpha, read_finite(config, "alpha"));
  FULMAR_ASSIGN(facts.base_fingerprint, read_digest(config, "base_fingerprint"));
  FULMAR_ASSIGN(manifest.targets, targets_of(tensors));
  manifest.rank = facts.rank;
  manifest.scale = scale_of(facts);
  manifest.base_fingerprint = facts.base_fingerprint;
  manifest.masters = true;
  manifest.hashed = lightning_manifest_text(facts, manifest.targets, {});
  return manifest;
}

bool is_lightning_target(std::string_view weight) {
  const auto block = layer_name(weight);
  return block && is_target(block->rest);
}

double scale_of(const LightningFacts& facts) {
  return static_cast<double>(static_cast<float>(facts.alpha) / static_cast<float>(facts.rank));
}

std::string lightning_manifest_text(const LightningFacts& facts, std::span<const LightningTarget> targets,
                                    std::string_view content_version) {
  std::string list;
  for (const LightningTarget& target : targets) {
    const auto block = layer_name(target.weight);
    list += fmt::format(R"({}{{"in_features":{},"layer":{},"name":"{}.D","shape":[{},{}],"target":"{}"}})",
                        list.empty() ? "" : ",", target.inputs, block->layer, target.weight, target.outputs,
                        facts.rank, block->rest);
  }
  const std::string version =
      content_version.empty() ? "" : fmt::format(R"("content_version":"{}",)", content_version);
  return fmt::format(
      R"({{"alpha":{},"base_fingerprint":"{}",{}"dtype":"{}","format_version":1,"kind":"inference_adapter",)"
      R"("layout":"modulo_rank_zero_pad","method":"miss","rank":{},"scale":{},"targets":[{}]}})",
      number_text(facts.alpha), facts.base_fingerprint, version,
      facts.dtype == DType::bf16 ? "bfloat16" : "float16", facts.rank, number_text(scale_of(facts)), list);
}

}  // namespace fulmar
