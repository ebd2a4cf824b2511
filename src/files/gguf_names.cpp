#include "files/gguf_names.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "files/identify.h"

namespace fulmar {
namespace {

struct NamePair {
  std::string_view official, gguf;
  GgufPart part = GgufPart::plain;
};

constexpr NamePair kOutside[] = {
    {"emb.weight", "token_embd.weight", GgufPart::matrix},
    {"blocks.0.ln0.weight", "token_embd_norm.weight"},
    {"blocks.0.ln0.bias", "token_embd_norm.bias"},
    {"ln_out.weight", "output_norm.weight"},
    {"ln_out.bias", "output_norm.bias"},
    {"head.weight", "output.weight", GgufPart::matrix},
};

constexpr NamePair kCommon[] = {
    {"ln1.weight", "attn_norm.weight"},
    {"ln1.bias", "attn_norm.bias"},
    {"ln2.weight", "attn_norm_2.weight"},
    {"ln2.bias", "attn_norm_2.bias"},
    {"att.ln_x.weight", "time_mix_ln.weight"},
    {"att.ln_x.bias", "time_mix_ln.bias"},
    {"att.receptance.weight", "time_mix_receptance.weight", GgufPart::matrix},
    {"att.key.weight", "time_mix_key.weight", GgufPart::matrix},
    {"att.value.weight", "time_mix_value.weight", GgufPart::matrix},
    {"att.output.weight", "time_mix_output.weight", GgufPart::rescaled_matrix},
    {"ffn.key.weight", "channel_mix_key.weight", GgufPart::matrix},
    {"ffn.value.weight", "channel_mix_value.weight", GgufPart::rescaled_matrix},
    {"", "time_mix_lerp_fused.weight", GgufPart::stacked_mixes},
};

constexpr NamePair kOnly7[] = {
    {"att.w0", "time_mix_w0.weight"},
    {"att.w1", "time_mix_w1.weight", GgufPart::transposed},
    {"att.w2", "time_mix_w2.weight", GgufPart::transposed},
    {"att.a0", "time_mix_a0.weight"},
    {"att.a1", "time_mix_a1.weight", GgufPart::transposed},
    {"att.a2", "time_mix_a2.weight", GgufPart::transposed},
    {"att.v0", "time_mix_v0.weight"},
    {"att.v1", "time_mix_v1.weight", GgufPart::transposed},
    {"att.v2", "time_mix_v2.weight", GgufPart::transposed},
    {"att.g1", "time_mix_g1.weight", GgufPart::transposed},
    {"att.g2", "time_mix_g2.weight", GgufPart::transposed},
    {"att.k_k", "time_mix_k_k.weight"},
    {"att.k_a", "time_mix_k_a.weight"},
    {"att.r_k", "time_mix_r_k.weight", GgufPart::heads},
    {"ffn.x_k", "channel_mix_lerp_k.weight"},
};

constexpr NamePair kOnly6[] = {
    {"att.gate.weight", "time_mix_gate.weight", GgufPart::matrix},
    {"att.time_maa_x", "time_mix_lerp_x.weight"},
    {"att.time_maa_w1", "time_mix_w1.weight", GgufPart::transposed},
    {"att.time_maa_w2", "time_mix_w2.weight", GgufPart::transposed},
    {"att.time_decay", "time_mix_decay.weight"},
    {"att.time_decay_w1", "time_mix_decay_w1.weight", GgufPart::transposed},
    {"att.time_decay_w2", "time_mix_decay_w2.weight", GgufPart::transposed},
    {"att.time_faaaa", "time_mix_first.weight", GgufPart::heads},
    {"ffn.time_maa_k", "channel_mix_lerp_k.weight"},
    {"ffn.time_maa_r", "channel_mix_lerp_r.weight"},
    {"ffn.receptance.weight", "channel_mix_receptance.weight", GgufPart::matrix},
    // Files of 2024 have the mixes one by one.
    {"att.time_maa_w", "time_mix_lerp_w.weight"},
    {"att.time_maa_k", "time_mix_lerp_k.weight"},
    {"att.time_maa_v", "time_mix_lerp_v.weight"},
    {"att.time_maa_r", "time_mix_lerp_r.weight"},
    {"att.time_maa_g", "time_mix_lerp_g.weight"},
};

constexpr std::array<std::string_view, 6> kMixes7 = {"att.x_r", "att.x_w", "att.x_k",
                                                     "att.x_v", "att.x_a", "att.x_g"};
constexpr std::array<std::string_view, 5> kMixes6 = {"att.time_maa_w", "att.time_maa_k", "att.time_maa_v",
                                                     "att.time_maa_r", "att.time_maa_g"};

const NamePair* find_in(std::span<const NamePair> list, std::string_view NamePair::*side,
                        std::string_view name) {
  for (const NamePair& entry : list) {
    if (!name.empty() && entry.*side == name) return &entry;
  }
  return nullptr;
}

const NamePair* find_inside(std::string_view NamePair::*side, std::string_view name, int version) {
  if (const NamePair* entry = find_in(kCommon, side, name)) return entry;
  return find_in(of_version<std::span<const NamePair>>(version, kOnly7, kOnly6), side, name);
}

// "<prefix><layer>.<rest>" taken apart.
struct InBlock {
  int64_t layer = 0;
  std::string_view rest;
};

std::optional<InBlock> in_block(std::string_view name, std::string_view prefix) {
  constexpr ptrdiff_t kMostDigits = 4;
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  InBlock found;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found.layer);
  const ptrdiff_t digits = end - name.data();
  if (error != std::errc{} || found.layer < 0 || digits > kMostDigits) return std::nullopt;
  if (static_cast<size_t>(digits) >= name.size() || *end != '.') return std::nullopt;
  found.rest = name.substr(static_cast<size_t>(digits) + 1);
  return found;
}

}  // namespace

GgufName official_name(std::string_view gguf, int version) {
  const auto block = in_block(gguf, "blk.");
  if (!block) {
    const NamePair* entry = find_in(kOutside, &NamePair::gguf, gguf);
    if (entry == nullptr) return {std::string(gguf)};
    return {std::string(entry->official), entry->part};
  }
  const NamePair* entry = find_inside(&NamePair::gguf, block->rest, version);
  const std::string_view rest = entry == nullptr ? block->rest : entry->official;
  GgufPart part = entry == nullptr ? GgufPart::plain : entry->part;
  if (is_unused(version, block->layer, rest)) part = GgufPart::unused;
  return {fmt::format("blocks.{}.{}", block->layer, rest), part, block->layer};
}

std::optional<std::string> gguf_name(std::string_view official, int version) {
  if (const NamePair* entry = find_in(kOutside, &NamePair::official, official))
    return std::string(entry->gguf);
  const auto block = in_block(official, "blocks.");
  if (!block) return std::nullopt;
  const NamePair* entry = find_inside(&NamePair::official, block->rest, version);
  if (entry == nullptr) return std::nullopt;
  return fmt::format("blk.{}.{}", block->layer, entry->gguf);
}

std::span<const std::string_view> mix_names(int version) {
  return of_version<std::span<const std::string_view>>(version, kMixes7, kMixes6);
}

}  // namespace fulmar
