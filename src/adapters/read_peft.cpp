// Folders of Hugging Face PEFT: base_model.model.<module>.<part>, official modules or those of
// flash-linear-attention. The configuration says what the parts mean.
#include <fmt/format.h>

#include <iterator>
#include <map>

#include "adapters/names.h"
#include "adapters/peft_config.h"
#include "adapters/reading.h"

namespace fulmar {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

enum class PeftPart : uint8_t { a, b, embedding_a, embedding_b, magnitude, block };

struct PartEnding {
  std::string_view ending;
  PeftPart part;
};
constexpr PartEnding kEndings[] = {
    {".lora_A.weight", PeftPart::a},
    {".lora_B.weight", PeftPart::b},
    {".lora_embedding_A", PeftPart::embedding_a},
    {".lora_embedding_B", PeftPart::embedding_b},
    {".lora_magnitude_vector", PeftPart::magnitude},
    {".miss_block", PeftPart::block},
    {".bone_block", PeftPart::block},
};

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

void erase_all(std::string& text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    const size_t end = at + part.size();
    if (end == text.size() || text[end] == '.') {
      text.erase(at, part.size());
    } else {
      at = end;
    }
  }
}

// Returns a name without what models in memory put into it.
std::string plain_name(std::string_view stored) {
  std::string name(stored.substr(kPrefix.size()));
  for (const std::string_view part : {".default", ".modules_to_save", ".base_layer"}) erase_all(name, part);
  return name;
}

using PeftParts = std::map<PeftPart, const StoredTensor*>;

class PeftReader {
 public:
  PeftReader(const AdapterSource& source, const PeftConfig& config, const AdapterOptions& options)
      : source_(source), config_(config), builder_(source.form, options) {}

  Result<Adapter> run() {
    for (const StoredTensor& tensor : source_.parts.tensors) FULMAR_TRY(sort_in(tensor));
    for (const auto& [module, parts] : modules_) FULMAR_TRY(read_module(module, parts));
    for (const std::string& text : source_.parts.remarks) builder_.remark(text);
    return builder_.finish();
  }

 private:
  Status sort_in(const StoredTensor& tensor) {
    if (!std::string_view(tensor.name).starts_with(kPrefix)) {
      return corrupt(fmt::format("'{}' is no name of a PEFT adapter; wanted '{}...'", tensor.name, kPrefix));
    }
    const std::string name = plain_name(tensor.name);
    for (const PartEnding& known : kEndings) {
      for (const std::string& ending : {std::string(known.ending), fmt::format("{}.weight", known.ending)}) {
        if (!name.ends_with(ending)) continue;
        PeftParts& parts = modules_[name.substr(0, name.size() - ending.size())];
        if (parts.emplace(known.part, &tensor).second) return {};
        return corrupt(fmt::format("two tensors stand for '{}'", name));
      }
    }
    for (const std::string_view part : {".lora_", ".miss_", ".bone_"}) {
      if (name.find(part) != std::string::npos) {
        return Error{ErrorKind::unsupported,
                     fmt::format("'{}' is no adapter tensor that is known", tensor.name)};
      }
    }
    return read_whole(name, tensor);
  }

  // Reads a tensor of modules_to_save.
  Status read_whole(const std::string& name, const StoredTensor& tensor) {
    constexpr std::string_view kWeight = ".weight";
    StoredTensor placed = tensor;
    if (name.ends_with(kWeight)) {
      if (const auto official = weight_of_module(name.substr(0, name.size() - kWeight.size()))) {
        FULMAR_TRY(builder_.note_version(official->version, tensor.name));
        if (is_input_major(official->name) && official->name != "emb.weight" && placed.shape.size() == 2) {
          placed = transposed(placed);
        }
        return builder_.add_whole(official->name, placed);
      }
    }
    for (const std::string_view known : {"blocks.", "ln_out.", "emb.", "head."}) {
      if (name.starts_with(known)) return builder_.add_whole(name, placed);
    }
    return corrupt(fmt::format("'{}' belongs to no known part of a model", tensor.name));
  }

  Status read_module(const std::string& module, const PeftParts& parts) {
    const auto official = weight_of_module(module);
    if (!official) return corrupt(fmt::format("module '{}' belongs to no known part of a model", module));
    FULMAR_TRY(builder_.note_version(official->version, module));
    Delta delta;
    delta.weight = official->name;
    delta.scale = config_.scale_at(module);
    const bool pairs = config_.method == PeftMethod::lora || config_.method == PeftMethod::dora;
    FULMAR_TRY(pairs ? read_pair(module, parts, delta) : read_block(module, parts, delta));
    return builder_.add(std::move(delta));
  }

  Status check_rank(const std::string& module, const HostTensor& tensor) const {
    const int64_t wanted = config_.rank_at(module);
    if (!tensor.shape.empty() && tensor.shape[0] == wanted) return {};
    return corrupt(fmt::format("module '{}' is {}; the configuration says rank {}", module,
                               shape_text(tensor.shape), wanted));
  }

  Status read_pair(const std::string& module, const PeftParts& parts, Delta& delta) {
    const bool embedding = parts.contains(PeftPart::embedding_a) || parts.contains(PeftPart::embedding_b);
    const auto a = parts.find(embedding ? PeftPart::embedding_a : PeftPart::a);
    const auto b = parts.find(embedding ? PeftPart::embedding_b : PeftPart::b);
    if (a == parts.end() || b == parts.end()) {
      return corrupt(fmt::format("module '{}' has no {}; wanted both factors", module,
                                 a == parts.end() ? "lora_A" : "lora_B"));
    }
    if (embedding && delta.weight != "emb.weight") {
      return corrupt(fmt::format("module '{}' has factors of an embedding and is none", module));
    }
    const bool dora = config_.method == PeftMethod::dora;
    const auto m = parts.find(PeftPart::magnitude);
    if (dora != (m != parts.end()) || parts.size() != (dora ? 3u : 2u)) {
      return corrupt(fmt::format("module '{}' has {} parts{}; wanted A and B{}, as use_dora is {}", module,
                                 parts.size(), m == parts.end() ? " and no magnitude" : "",
                                 dora ? " and the magnitude" : "", dora));
    }
    FULMAR_ASSIGN(delta.a, builder_.read(*a->second));
    FULMAR_ASSIGN(delta.b, builder_.read(*b->second));
    FULMAR_TRY(check_rank(module, delta.a));
    if (!dora) return {};
    delta.kind = DeltaKind::dora_out;
    FULMAR_ASSIGN(delta.m, builder_.read(*m->second));
    return {};
  }

  Status read_block(const std::string& module, const PeftParts& parts, Delta& delta) {
    const auto block = parts.find(PeftPart::block);
    if (block == parts.end() || parts.size() != 1) {
      return corrupt(fmt::format("module '{}' has {} parts; wanted one block", module, parts.size()));
    }
    FULMAR_ASSIGN(delta.d, builder_.read(*block->second));
    delta.kind = config_.method == PeftMethod::bat ? DeltaKind::bat_out : DeltaKind::miss;
    if (delta.kind == DeltaKind::bat_out) return {};
    FULMAR_TRY(check_rank(module, delta.d));
    delta.mini = config_.method == PeftMethod::miss_mini;
    if (!delta.mini || (delta.d.shape.size() == 2 && delta.d.shape[1] == config_.mini_rank)) return {};
    return corrupt(fmt::format("module '{}' is {}; mini_r says [r, {}]", module, shape_text(delta.d.shape),
                               config_.mini_rank));
  }

  const AdapterSource& source_;
  const PeftConfig& config_;
  AdapterBuilder builder_;
  std::map<std::string, PeftParts> modules_;
};

}  // namespace

Result<Adapter> read_peft(const AdapterSource& source, const AdapterOptions& options) {
  FULMAR_TRY(refuse_scales(options, "adapter_config.json says it"));
  FULMAR_TRY(refuse_init(options, "Hugging Face PEFT saves no such file"));
  FULMAR_ASSIGN(const PeftConfig config, read_peft_config(source.configuration));
  return PeftReader(source, config, options).run();
}

}  // namespace fulmar
