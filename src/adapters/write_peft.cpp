// Folders of Hugging Face PEFT: LoRA, DoRA by outputs, MiSS or Bat by outputs, one of them for all matrices,
// and whole modules beside.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "adapters/config_json.h"
#include "adapters/names.h"
#include "adapters/writing.h"
#include "base/write_file.h"
#include "files/safetensors.h"

namespace fulmar {
namespace {

constexpr std::string_view kForm = "Hugging Face PEFT";
constexpr std::string_view kPrefix = "base_model.model.";

// Returns a number as JSON that reads back as the same.
std::string number(double value) { return fmt::format("{}", value); }

class PeftWriter {
 public:
  explicit PeftWriter(const Adapter& adapter) : adapter_(adapter) {}

  // Collects the tensors and what the configuration says.
  Status collect() {
    const auto is_part = [](const Delta& delta) { return !delta.weight.ends_with(".weight"); };
    naming_ = std::any_of(adapter_.deltas.begin(), adapter_.deltas.end(), is_part)
                  ? ModuleNames::flash_linear_attention
                  : ModuleNames::official;
    kind_ = adapter_.deltas.empty() ? DeltaKind::low_rank : adapter_.deltas.front().kind;
    deltas_.reserve(adapter_.deltas.size());
    for (const Delta& delta : adapter_.deltas) FULMAR_TRY(add(delta));
    for (const WholeTensor& whole : adapter_.whole) FULMAR_TRY(add_whole(whole));
    return {};
  }

  const std::vector<StoredTensor>& tensors() const { return tensors_; }

  std::string configuration() const {
    const bool pairs = kind_ == DeltaKind::low_rank || kind_ == DeltaKind::dora_out;
    std::string text = fmt::format(
        R"({{"base_model_name_or_path":"","bias":"none","inference_mode":true,"modules_to_save":{},)"
        R"("peft_type":"{}","r":{},"target_modules":{},"task_type":"CAUSAL_LM",)",
        saved_.empty() ? "null" : list(saved_), pairs ? "LORA" : "MISS", first_rank(), list(modules_));
    text += pairs ? lora_members() : miss_members();
    return text + "}\n";
  }

 private:
  Status add(const Delta& delta) {
    const auto module = module_of_weight(delta.weight, naming_, adapter_.version);
    if (!module) return no_place_for(delta.weight, "this part of a model", kForm);
    if (delta.kind == DeltaKind::bat_in || delta.kind == DeltaKind::dora_in) {
      return no_place_for(delta.weight, name_of(delta.kind), kForm);
    }
    const Delta& first = adapter_.deltas.front();
    if (delta.kind != first.kind || delta.mini != first.mini) {
      return no_place_for(delta.weight, fmt::format("{} beside {}", name_of(delta.kind), name_of(first.kind)),
                          kForm);
    }
    modules_.insert(*module);
    paths_.push_back(*module);
    const bool pair = delta.d.empty();
    if (!pair && (delta.rank() != first.rank() || (delta.mini && delta.d.shape[1] != first.d.shape[1]))) {
      return no_place_for(delta.weight, fmt::format("MiSS of rank {} beside {}", delta.rank(), first.rank()),
                          kForm);
    }
    deltas_.push_back(pair || delta.scale == 1 ? delta : with_scale_inside(delta));
    const Delta& kept = deltas_.back();
    const std::string stem = fmt::format("{}{}", kPrefix, *module);
    if (!pair) {
      tensors_.push_back(kept.d.stored(stem + ".miss_block"));
      return {};
    }
    const bool embedding = delta.weight == "emb.weight";
    tensors_.push_back(kept.a.stored(stem + (embedding ? ".lora_embedding_A" : ".lora_A.weight")));
    tensors_.push_back(kept.b.stored(stem + (embedding ? ".lora_embedding_B" : ".lora_B.weight")));
    if (!kept.m.empty()) tensors_.push_back(kept.m.stored(stem + ".lora_magnitude_vector"));
    return {};
  }

  Status add_whole(const WholeTensor& whole) {
    const size_t end = whole.name.rfind('.');
    const std::string_view part = std::string_view(whole.name).substr(end + 1);
    if (end == std::string::npos || (part != "weight" && part != "bias")) {
      return no_place_for(whole.name, "a tensor that is no module's weight or bias", kForm);
    }
    if (naming_ != ModuleNames::official) {
      return no_place_for(whole.name, "whole modules beside low-rank parts", kForm);
    }
    saved_.insert(whole.name.substr(0, end));
    tensors_.push_back(whole.value.stored(fmt::format("{}{}", kPrefix, whole.name)));
    return {};
  }

  int64_t first_rank() const { return deltas_.empty() ? 8 : deltas_.front().rank(); }

  // Returns the divisor of alpha.
  static double divisor(const Delta& delta, bool root) {
    const auto rank = static_cast<double>(delta.rank());
    return root ? std::sqrt(rank) : rank;
  }
  // Returns whether every scale is some alpha over its divisor.
  bool exact(bool root) const {
    return std::all_of(deltas_.begin(), deltas_.end(), [&](const Delta& delta) {
      return alpha_of(delta.scale, divisor(delta, root)).has_value();
    });
  }

  std::string lora_members() const {
    const bool root = !exact(false) && exact(true);
    const auto alpha = [&](const Delta& delta) {
      const double by = divisor(delta, root);
      return number(alpha_of(delta.scale, by).value_or(delta.scale * by));
    };
    const std::string first = deltas_.empty() ? "8" : alpha(deltas_.front());
    std::string ranks, alphas;
    for (size_t i = 0; i < deltas_.size(); i++) {
      const std::string name = json_string(paths_[i]);
      if (deltas_[i].rank() != first_rank()) add_member(ranks, name, std::to_string(deltas_[i].rank()));
      if (alpha(deltas_[i]) != first) add_member(alphas, name, alpha(deltas_[i]));
    }
    return fmt::format(
        R"("alpha_pattern":{{{}}},"fan_in_fan_out":false,"init_lora_weights":true,"lora_alpha":{},)"
        R"("lora_dropout":0.0,"rank_pattern":{{{}}},"use_dora":{},"use_rslora":{})",
        alphas, first, ranks, kind_ == DeltaKind::dora_out, root);
  }

  std::string miss_members() const {
    const bool mini = deltas_.front().mini;
    const std::string_view init = kind_ == DeltaKind::bat_out ? R"("bat")" : mini ? R"("mini")" : "true";
    return fmt::format(R"("init_weights":{},"mini_r":{},"miss_dropout":0.0)", init,
                       mini ? deltas_.front().d.shape[1] : 1);
  }

  static void add_member(std::string& members, const std::string& name, const std::string& value) {
    members += fmt::format("{}{}:{}", members.empty() ? "" : ",", name, value);
  }
  static std::string list(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + json_string(name);
    return "[" + text + "]";
  }

  const Adapter& adapter_;
  ModuleNames naming_ = ModuleNames::official;
  DeltaKind kind_ = DeltaKind::low_rank;
  std::vector<Delta> deltas_;       // as they are written
  std::vector<std::string> paths_;  // their modules
  std::set<std::string> modules_, saved_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace

Status write_peft(const std::filesystem::path& folder, const Adapter& adapter) {
  PeftWriter writer(adapter);
  FULMAR_TRY(writer.collect());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return Error{ErrorKind::io, fmt::format("'{}' cannot be made: {}", folder.string(), error.message())};
  }
  FULMAR_TRY(write_safetensors(folder / "adapter_model.safetensors", writer.tensors()));
  return write_whole_file(folder / "adapter_config.json", writer.configuration());
}

}  // namespace fulmar
