#include "files/canonical.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <unordered_set>

#include "files/quantised.h"

namespace fulmar {
namespace {

// One program's names. A rule replaces the beginning of a name; the first that fits wins.
struct Renaming {
  std::string_view from;
  std::string_view to;
  bool transpose = false;  // of the last two axes
};

// Tensors that stand for several official ones and need more than another name.
enum class Fused : uint8_t { none, fla7, fla6 };

struct Naming {
  std::string_view title;
  std::string_view block_prefix;      // followed by the layer number and a dot
  std::span<const Renaming> outside;  // rules for names outside blocks
  std::span<const Renaming> inside;   // rules for what follows the layer number
  Fused fused = Fused::none;
};

constexpr std::array<Renaming, 3> kWebRwkv6Inside = {{{"att.time_first", "att.time_faaaa"},
                                                      {"att.time_mix_", "att.time_maa_"},
                                                      {"ffn.time_mix_", "ffn.time_maa_"}}};

constexpr std::array<Renaming, 3> kFlaOutside = {
    {{"model.embeddings.", "emb."}, {"model.norm.", "ln_out."}, {"lm_head.", "head."}}};

constexpr std::array<Renaming, 20> kFla7Inside = {{{"pre_norm.", "ln0."},
                                                   {"attn_norm.", "ln1."},
                                                   {"ffn_norm.", "ln2."},
                                                   {"attn.g_norm.", "att.ln_x."},
                                                   {"attn.r_proj.", "att.receptance."},
                                                   {"attn.k_proj.", "att.key."},
                                                   {"attn.v_proj.", "att.value."},
                                                   {"attn.o_proj.", "att.output."},
                                                   {"attn.w_lora.lora.0.weight", "att.w1", true},
                                                   {"attn.w_lora.lora.2.weight", "att.w2", true},
                                                   {"attn.w_lora.lora.2.bias", "att.w0"},
                                                   {"attn.a_lora.lora.0.weight", "att.a1", true},
                                                   {"attn.a_lora.lora.2.weight", "att.a2", true},
                                                   {"attn.a_lora.lora.2.bias", "att.a0"},
                                                   {"attn.v_lora.lora.0.weight", "att.v1", true},
                                                   {"attn.v_lora.lora.2.weight", "att.v2", true},
                                                   {"attn.v_lora.lora.2.bias", "att.v0"},
                                                   {"attn.g_lora.lora.0.weight", "att.g1", true},
                                                   {"attn.g_lora.lora.2.weight", "att.g2", true},
                                                   {"attn.", "att."}}};

constexpr std::array<Renaming, 19> kFla6Inside = {
    {{"pre_norm.", "ln0."},
     {"attn_norm.", "ln1."},
     {"ffn_norm.", "ln2."},
     {"attn.g_norm.", "att.ln_x."},
     {"attn.r_proj.linear.", "att.receptance."},
     {"attn.k_proj.linear.", "att.key."},
     {"attn.v_proj.linear.", "att.value."},
     {"attn.g_proj.linear.", "att.gate."},
     {"attn.o_proj.", "att.output."},
     {"attn.x_proj.0.mu", "att.time_maa_x"},
     {"attn.w_proj.linear.lora.0.weight", "att.time_decay_w1", true},
     {"attn.w_proj.linear.lora.2.weight", "att.time_decay_w2", true},
     {"attn.w_proj.linear.lora.2.bias", "att.time_decay"},
     {"attn.bonus", "att.time_faaaa"},
     {"attn.", "att."},
     {"ffn.key.linear.", "ffn.key."},
     {"ffn.key.mu", "ffn.time_maa_k"},
     {"ffn.receptance.linear.", "ffn.receptance."},
     {"ffn.receptance.mu", "ffn.time_maa_r"}}};

constexpr std::array<Renaming, 2> kHf6Outside = {{{"rwkv.embeddings.", "emb."}, {"rwkv.ln_out.", "ln_out."}}};
constexpr std::array<Renaming, 3> kHf6Inside = {
    {{"pre_ln.", "ln0."}, {"attention.", "att."}, {"feed_forward.", "ffn."}}};

// Transformers' Rwkv7ForCausalLM keeps the official names after the name of its body.
constexpr std::array<Renaming, 1> kOfficialOutside = {{{"embeddings.", "emb."}}};
constexpr std::array<Renaming, 5> kModelOutside = {{{"model.embeddings.", "emb."},
                                                    {"model.emb.", "emb."},
                                                    {"model.ln_out.", "ln_out."},
                                                    {"model.head.", "head."},
                                                    {"embeddings.", "emb."}}};
constexpr std::array<Renaming, 5> kRwkv7Outside = {{{"rwkv7.embeddings.", "emb."},
                                                    {"rwkv7.emb.", "emb."},
                                                    {"rwkv7.ln_out.", "ln_out."},
                                                    {"rwkv7.head.", "head."},
                                                    {"embeddings.", "emb."}}};

constexpr Naming kOfficial = {"official names", "blocks.", kOfficialOutside, {}};
constexpr Naming kModel = {"official names behind 'model.'", "model.blocks.", kModelOutside, {}};
constexpr Naming kRwkv7 = {"official names behind 'rwkv7.'", "rwkv7.blocks.", kRwkv7Outside, {}};
constexpr Naming kWebRwkv6 = {"web-rwkv names", "blocks.", {}, kWebRwkv6Inside};
constexpr Naming kFla7 = {"flash-linear-attention RWKV-7 names", "model.layers.", kFlaOutside, kFla7Inside,
                          Fused::fla7};
constexpr Naming kFla6 = {"flash-linear-attention RWKV-6 names", "model.layers.", kFlaOutside, kFla6Inside,
                          Fused::fla6};
constexpr Naming kHf6 = {"Transformers RWKV-6 names", "rwkv.blocks.", kHf6Outside, kHf6Inside};

bool has_name_part(const Checkpoint& source, std::string_view prefix, std::string_view part) {
  const auto& tensors = source.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const StoredTensor& t) {
    return std::string_view(t.name).starts_with(prefix) && t.name.find(part) != std::string::npos;
  });
}

const Naming& naming_of(const Checkpoint& source) {
  if (has_name_part(source, "rwkv.blocks.", ".attention.")) return kHf6;
  if (has_name_part(source, "model.layers.", ".attn.r_k")) return kFla7;
  if (has_name_part(source, "model.layers.", ".attn.x_proj.")) return kFla6;
  if (has_name_part(source, "blocks.", ".att.time_mix_w1")) return kWebRwkv6;
  if (has_name_part(source, "model.blocks.", ".att.")) return kModel;
  if (has_name_part(source, "rwkv7.blocks.", ".att.")) return kRwkv7;
  return kOfficial;
}

// "<prefix><layer>.<rest>" taken apart.
struct BlockName {
  std::string_view layer;
  std::string_view rest;
};

std::optional<BlockName> split_block_name(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos || name[digits] != '.') return std::nullopt;
  return BlockName{name.substr(0, digits), name.substr(digits + 1)};
}

std::string apply_rules(std::string_view name, std::span<const Renaming> rules, bool& transpose) {
  for (const Renaming& rule : rules) {
    if (!name.starts_with(rule.from)) continue;
    transpose = rule.transpose;
    return fmt::format("{}{}", rule.to, name.substr(rule.from.size()));
  }
  return std::string(name);
}

// Swaps the last two axes of a view.
void swap_last_axes(StoredTensor& tensor) {
  const size_t rank = tensor.shape.size();
  if (rank < 2) return;
  std::swap(tensor.shape[rank - 1], tensor.shape[rank - 2]);
  std::swap(tensor.strides[rank - 1], tensor.strides[rank - 2]);
}

// Returns index `index` of the outermost axis.
StoredTensor slice_outermost(const StoredTensor& tensor, int64_t index, std::string name) {
  StoredTensor slice = tensor;
  slice.name = std::move(name);
  slice.data += static_cast<size_t>(index * tensor.strides[0]) * size_of(tensor.dtype);
  slice.shape.erase(slice.shape.begin());
  slice.strides.erase(slice.strides.begin());
  return slice;
}

// Removes a unit axis after [H, N], which some converters keep.
void drop_trailing_unit_axis(StoredTensor& tensor) {
  if (tensor.shape.size() == 3 && tensor.shape.back() == 1) {
    tensor.shape.pop_back();
    tensor.strides.pop_back();
  }
}

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

// Returns whether the low-rank factors are transposed, as web-rwkv writes them. The first factor that is not
// square decides: officially it is [C, rank].
bool low_rank_swapped(std::span<const StoredTensor> tensors, bool when_all_square) {
  const auto emb = std::find_if(tensors.begin(), tensors.end(),
                                [](const StoredTensor& t) { return t.name == "emb.weight"; });
  if (emb == tensors.end() || emb->shape.size() != 2) return false;
  const int64_t c = emb->shape[1];
  for (const StoredTensor& t : tensors) {
    const bool first_factor =
        ends_with_any(t.name, {".att.w1", ".att.a1", ".att.g1", ".att.v1", ".time_maa_w1", ".time_decay_w1"});
    if (!first_factor || t.shape.size() != 2 || t.shape[0] == t.shape[1]) continue;
    if (t.shape[0] == c) return false;
    if (t.shape[1] == c) return true;
  }
  return when_all_square;
}

void swap_low_rank(std::span<StoredTensor> tensors) {
  for (StoredTensor& t : tensors) {
    if (ends_with_any(t.name,
                      {".att.w1", ".att.w2", ".att.a1", ".att.a2", ".att.v1", ".att.v2", ".att.g1", ".att.g2",
                       ".time_maa_w1", ".time_maa_w2", ".time_decay_w1", ".time_decay_w2", ".time_state"})) {
      swap_last_axes(t);
    }
  }
}

class CanonicalCheckpoint final : public Checkpoint {
 public:
  CanonicalCheckpoint(std::unique_ptr<Checkpoint> source, std::string_view naming, bool swapped)
      : source_(std::move(source)),
        description_(fmt::format("{}, {}{}", source_->describe(), naming,
                                 swapped ? ", low-rank factors as web-rwkv stores them" : "")) {}

  const std::vector<StoredTensor>& tensors() const override { return tensors_; }
  std::string describe() const override { return description_; }
  const std::map<std::string, std::string>& metadata() const override { return source_->metadata(); }
  const StoredVocabulary* vocabulary() const override { return source_->vocabulary(); }
  const std::vector<std::string>& remarks() const override { return source_->remarks(); }
  void release_pages(const StoredTensor& tensor) const override { source_->release_pages(tensor); }

  void set(std::vector<StoredTensor> tensors, std::vector<std::vector<std::byte>> copies) {
    tensors_ = std::move(tensors);
    copies_ = std::move(copies);
  }

 private:
  std::unique_ptr<Checkpoint> source_;
  std::string description_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;  // memory of the tensors that are not views
};

class Renamer {
 public:
  explicit Renamer(const Naming& naming) : naming_(naming) {}

  Status add(const StoredTensor& source) {
    StoredTensor tensor = source;
    bool transpose = false;
    if (const std::optional<BlockName> block = split_block_name(source.name, naming_.block_prefix)) {
      const std::string prefix = fmt::format("blocks.{}.", block->layer);
      if (is_fused(block->rest)) return add_fused(source, prefix, block->rest);
      tensor.name = prefix + apply_rules(block->rest, naming_.inside, transpose);
    } else {
      tensor.name = apply_rules(source.name, naming_.outside, transpose);
    }
    if (tensor.scales != nullptr && (transpose || !is_large_matrix(tensor.name))) decode(tensor);
    if (transpose) swap_last_axes(tensor);
    if (ends_with_any(tensor.name, {".att.r_k", ".att.time_faaaa"})) drop_trailing_unit_axis(tensor);
    tensors_.push_back(std::move(tensor));
    return {};
  }

  std::vector<StoredTensor>& tensors() { return tensors_; }
  std::vector<std::vector<std::byte>> take_copies() { return std::move(copies_); }

 private:
  static Error misshapen(const StoredTensor& tensor, std::string_view wanted) {
    return {ErrorKind::corrupt,
            fmt::format("'{}' has shape {}; wanted {}", tensor.name, shape_text(tensor.shape), wanted)};
  }

  // Decodes codes to numbers, for what is transposed, gathered or small.
  void decode(StoredTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    copy_as_f32(tensor, values);
    std::vector<std::byte> copy(values.size() * sizeof(float));
    std::memcpy(copy.data(), values.data(), copy.size());
    tensor.dtype = DType::f32;
    tensor.scales = nullptr;
    tensor.group = 0;
    tensor.data = copies_.emplace_back(std::move(copy)).data();
  }

  bool is_fused(std::string_view rest) const {
    if (naming_.fused == Fused::fla7) return rest == "attn.x_x";
    return naming_.fused == Fused::fla6 &&
           (rest == "attn.x_bias" || rest == "attn.x_proj.0.linear.weight" || rest == "attn.x_proj.2.weight");
  }

  Status add_fused(const StoredTensor& source, const std::string& prefix, std::string_view rest) {
    if (rest == "attn.x_x") return add_slices(source, prefix + "att.x_", "rwkvag");
    if (rest == "attn.x_bias") return add_slices(source, prefix + "att.time_maa_", "rwkvg");
    if (rest == "attn.x_proj.2.weight") return add_mix_w2(source, prefix);
    return add_mix_w1(source, prefix);
  }

  // Adds one vector for each letter, stacked in the order of the letters.
  Status add_slices(const StoredTensor& stacked, const std::string& stem, std::string_view letters) {
    if (stacked.shape.empty() || stacked.shape[0] != static_cast<int64_t>(letters.size())) {
      return misshapen(stacked, fmt::format("[{}, C]", letters.size()));
    }
    for (size_t i = 0; i < letters.size(); i++) {
      tensors_.push_back(slice_outermost(stacked, static_cast<int64_t>(i), stem + letters[i]));
    }
    return {};
  }

  // flash-linear-attention stacks the five mixes r, w, k, v, g; officially they stand w, k, v, r, g.
  static constexpr std::array<int64_t, 5> kMixOrder = {1, 2, 3, 0, 4};

  // Converts [5*Rm, C], rows grouped by mix, to [C, 5*Rm].
  Status add_mix_w1(const StoredTensor& source, const std::string& prefix) {
    if (source.shape.size() != 2 || source.shape[0] == 0 || source.shape[0] % 5 != 0) {
      return misshapen(source, "[5*Rm, C]");
    }
    const int64_t rank = source.shape[0] / 5, width = source.shape[1];
    StoredTensor grouped = source;  // as [5, Rm, C]
    grouped.shape = {5, rank, width};
    grouped.strides = {rank * source.strides[0], source.strides[0], source.strides[1]};
    StoredTensor joined = reordered(grouped, prefix + "att.time_maa_w1");  // [5, Rm, C] in one piece
    joined.shape = {width, 5 * rank};
    joined.strides = {1, width};
    tensors_.push_back(std::move(joined));
    return {};
  }

  // Converts [C, 5*Rm], columns grouped by mix, to [5, Rm, C].
  Status add_mix_w2(const StoredTensor& source, const std::string& prefix) {
    if (source.shape.size() != 2 || source.shape[1] == 0 || source.shape[1] % 5 != 0) {
      return misshapen(source, "[C, 5*Rm]");
    }
    const int64_t rank = source.shape[1] / 5;
    StoredTensor grouped = source;
    grouped.shape = {5, rank, source.shape[0]};
    grouped.strides = {rank * source.strides[1], source.strides[1], source.strides[0]};
    tensors_.push_back(reordered(grouped, prefix + "att.time_maa_w2"));
    return {};
  }

  // Returns a copy of a [5, a, b] tensor in the official order of mixes.
  StoredTensor reordered(const StoredTensor& grouped, std::string name) {
    std::vector<std::byte> copy;
    copy.reserve(grouped.bytes());
    for (const int64_t index : kMixOrder) {
      const std::vector<std::byte> slice = gather_contiguous(slice_outermost(grouped, index, ""));
      copy.insert(copy.end(), slice.begin(), slice.end());
    }
    StoredTensor tensor = grouped;
    tensor.name = std::move(name);
    tensor.strides = row_major_strides(tensor.shape);
    tensor.data = copies_.emplace_back(std::move(copy)).data();
    return tensor;
  }

  const Naming& naming_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;  // moving a vector leaves its bytes where they are
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> canonicalise(std::unique_ptr<Checkpoint> source) {
  const Naming& naming = naming_of(*source);
  Renamer renamer(naming);
  for (const StoredTensor& tensor : source->tensors()) FULMAR_TRY(renamer.add(tensor));
  std::vector<StoredTensor>& tensors = renamer.tensors();

  std::unordered_set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Error{ErrorKind::corrupt, fmt::format("two tensors stand for '{}'", tensor.name)};
    }
  }
  const bool may_swap = &naming == &kOfficial || &naming == &kWebRwkv6;
  const bool swapped = may_swap && low_rank_swapped(tensors, &naming == &kWebRwkv6);
  if (swapped) swap_low_rank(tensors);

  auto canonical = std::make_unique<CanonicalCheckpoint>(std::move(source), naming.title, swapped);
  canonical->set(std::move(tensors), renamer.take_copies());
  return std::unique_ptr<Checkpoint>(std::move(canonical));
}

}  // namespace fulmar
