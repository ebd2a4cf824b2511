#include "files/versions.h"

#include <algorithm>

#include "base/check.h"

namespace fulmar {
namespace {

using Config = ModelConfig;
constexpr Dim kV{&Config::vocab, 1}, kC{&Config::n_embd, 1}, kH{&Config::n_head, 1},
    kN{&Config::head_size, 1};
constexpr Dim kF{&Config::n_ffn, 1}, kD{&Config::deep_embed_rank, 1}, kDD{&Config::deep_embed_rank, 1, true};
constexpr std::array<Dim, 3> kVector = {kC}, kSquare = {kC, kC};

constexpr Range kScale{1, 0.25}, kBias{0, 0.1}, kMix{0.5, 0.5};
constexpr Range kWeight{0, 0, Range::By::weight}, kFirst{0, 0, Range::By::first},
    kSecond{0, 0, Range::By::second};

using enum Where;
using enum GgufPart;

// ---- what all versions have, in the order of a state dict around a version's own

constexpr ModelTensor kFront[] = {
    {"emb.weight", before_blocks, {kV, kC}, {0, 1}, "token_embd.weight", matrix},
    {"ln0.weight", first_block, kVector, kScale, "token_embd_norm.weight"},
    {"ln0.bias", first_block, kVector, kBias, "token_embd_norm.bias"},
    {"ln1.weight", every_block, kVector, kScale, "attn_norm.weight"},
    {"ln1.bias", every_block, kVector, kBias, "attn_norm.bias"},
    {"ln2.weight", every_block, kVector, kScale, "attn_norm_2.weight"},
    {"ln2.bias", every_block, kVector, kBias, "attn_norm_2.bias"},
};

constexpr ModelTensor kProjections[] = {
    {"att.receptance.weight", every_block, kSquare, kWeight, "time_mix_receptance.weight", matrix},
    {"att.key.weight", every_block, kSquare, kWeight, "time_mix_key.weight", matrix},
    {"att.value.weight", every_block, kSquare, kWeight, "time_mix_value.weight", matrix},
    {"att.output.weight", every_block, kSquare, kWeight, "time_mix_output.weight", rescaled_matrix},
    {"att.ln_x.weight", every_block, kVector, kScale, "time_mix_ln.weight"},
    {"att.ln_x.bias", every_block, kVector, kBias, "time_mix_ln.bias"},
};

constexpr ModelTensor kBack[] = {
    {"ffn.key.weight", every_block, {kF, kC}, kWeight, "channel_mix_key.weight", matrix},
    {"ffn.value.weight", every_block, {kC, kF}, kWeight, "channel_mix_value.weight", rescaled_matrix},
    {"ln_out.weight", after_blocks, kVector, kScale, "output_norm.weight"},
    {"ln_out.bias", after_blocks, kVector, kBias, "output_norm.bias"},
    {"head.weight", after_blocks, {kV, kC}, kWeight, "output.weight", matrix},
};

template <size_t... N>
constexpr auto joined(const ModelTensor (&... lists)[N]) {
  std::array<ModelTensor, (N + ...)> all{};
  auto to = all.begin();
  ((to = std::copy(std::begin(lists), std::end(lists), to)), ...);
  return all;
}

// ---- RWKV-7; mixes in the order in which GGUF stacks them

constexpr Dim kRw{&Config::rank_w, 1}, kRa{&Config::rank_a, 1}, kRv{&Config::rank_v, 1},
    kRg{&Config::rank_g, 1};

constexpr ModelTensor kTimeMix7[] = {
    {"att.x_r", every_block, kVector, kMix, "", mix},
    {"att.x_w", every_block, kVector, kMix, "", mix},
    {"att.x_k", every_block, kVector, kMix, "", mix},
    {"att.x_v", every_block, kVector, kMix, "", mix},
    {"att.x_a", every_block, kVector, kMix, "", mix},
    {"att.x_g", every_block, kVector, kMix, "", mix},
    {"att.w0", every_block, kVector, {-2, 4}, "time_mix_w0.weight"},
    {"att.w1", every_block, {kC, kRw}, kFirst, "time_mix_w1.weight", transposed},
    {"att.w2", every_block, {kRw, kC}, kSecond, "time_mix_w2.weight", transposed},
    {"att.a0", every_block, kVector, {0, 1}, "time_mix_a0.weight"},
    {"att.a1", every_block, {kC, kRa}, kFirst, "time_mix_a1.weight", transposed},
    {"att.a2", every_block, {kRa, kC}, kSecond, "time_mix_a2.weight", transposed},
    {"att.v0", later_blocks, kVector, {0.7, 0.5}, "time_mix_v0.weight"},
    {"att.v1", later_blocks, {kC, kRv}, kFirst, "time_mix_v1.weight", transposed},
    {"att.v2", later_blocks, {kRv, kC}, kSecond, "time_mix_v2.weight", transposed},
    {"att.g1", every_block, {kC, kRg}, kFirst, "time_mix_g1.weight", transposed},
    {"att.g2", every_block, {kRg, kC}, kSecond, "time_mix_g2.weight", transposed},
    {"att.k_k", every_block, kVector, {0.7, 0.3}, "time_mix_k_k.weight"},
    {"att.k_a", every_block, kVector, {1, 0.2}, "time_mix_k_a.weight"},
    {"att.r_k", every_block, {kH, kN}, {0, 0.2}, "time_mix_r_k.weight", heads},
};

constexpr ModelTensor kChannelMix7[] = {
    {"ffn.x_k", every_block, kVector, kMix, "channel_mix_lerp_k.weight"},
    {"ffn.s_emb.weight", deep_blocks, {kV, kDD}, {0, 0.3}, ""},
    {"ffn.s_emb_x.weight", deep_blocks, {kDD, kC}, {0, 0.3}, ""},
    {"ffn.s1", deep_blocks, {kC, kD}, kFirst, ""},
    {"ffn.s2", deep_blocks, {kD, kF}, kSecond, ""},
    {"ffn.s0", deep_blocks, {kF}, {1, 0.2}, ""},
};

constexpr RankSize kRanks7[] = {
    {"w", &Config::rank_w, "att.w1", "attention.decay_lora_rank"},
    {"a", &Config::rank_a, "att.a1", "attention.iclr_lora_rank"},
    {"v", &Config::rank_v, "att.v1", "attention.value_residual_mix_lora_rank", 1},
    {"g", &Config::rank_g, "att.g1", "attention.gate_lora_rank"},
};

// ---- RWKV-6; GGUF files of 2024 have the mixes one by one

constexpr Dim kRm{&Config::rank_mix, 1}, kRm5{&Config::rank_mix, 5}, kRd{&Config::rank_decay, 1},
    kFive{nullptr, 5};

constexpr ModelTensor kTimeMix6[] = {
    {"att.time_maa_x", every_block, kVector, kMix, "time_mix_lerp_x.weight"},
    {"att.time_maa_w", every_block, kVector, kMix, "time_mix_lerp_w.weight", mix},
    {"att.time_maa_k", every_block, kVector, kMix, "time_mix_lerp_k.weight", mix},
    {"att.time_maa_v", every_block, kVector, kMix, "time_mix_lerp_v.weight", mix},
    {"att.time_maa_r", every_block, kVector, kMix, "time_mix_lerp_r.weight", mix},
    {"att.time_maa_g", every_block, kVector, kMix, "time_mix_lerp_g.weight", mix},
    {"att.time_maa_w1", every_block, {kC, kRm5}, kFirst, "time_mix_w1.weight", transposed},
    {"att.time_maa_w2", every_block, {kFive, kRm, kC}, kSecond, "time_mix_w2.weight", transposed},
    {"att.time_decay", every_block, kVector, {-2, 3}, "time_mix_decay.weight"},
    {"att.time_decay_w1", every_block, {kC, kRd}, kFirst, "time_mix_decay_w1.weight", transposed},
    {"att.time_decay_w2", every_block, {kRd, kC}, kSecond, "time_mix_decay_w2.weight", transposed},
    {"att.time_faaaa", every_block, {kH, kN}, {0, 0.5}, "time_mix_first.weight", heads},
    {"att.gate.weight", every_block, kSquare, kWeight, "time_mix_gate.weight", matrix},
};

constexpr ModelTensor kChannelMix6[] = {
    {"ffn.time_maa_k", every_block, kVector, kMix, "channel_mix_lerp_k.weight"},
    {"ffn.time_maa_r", every_block, kVector, kMix, "channel_mix_lerp_r.weight"},
    {"ffn.receptance.weight", every_block, kSquare, kWeight, "channel_mix_receptance.weight", matrix},
};

constexpr RankSize kRanks6[] = {
    {"mix", &Config::rank_mix, "att.time_maa_w1", "time_mix_extra_dim", 0, 5},
    {"decay", &Config::rank_decay, "att.time_decay_w1", "time_decay_extra_dim"},
};

// ---- the table

constexpr auto kTensors7 = joined(kFront, kTimeMix7, kProjections, kChannelMix7, kBack);
constexpr auto kTensors6 = joined(kFront, kTimeMix6, kProjections, kChannelMix6, kBack);

constexpr Version kTable[] = {
    {7, ".att.r_k", "att.r_k", kTensors7, kRanks7, 8, true, false},
    {6, ".att.time_maa_x", "att.time_faaaa", kTensors6, kRanks6, 7, false, true},
};
static_assert(std::ranges::equal(kTable, kVersions, {}, &Version::number), "each of kVersions has a row");

constexpr bool complete(const Version& version) {
  const auto has = [&](std::string_view name) {
    return std::ranges::find(version.tensors, name, &ModelTensor::name) != version.tensors.end();
  };
  return !version.sign.empty() && has(version.heads) && version.ffn_halves > 0 &&
         std::ranges::all_of(version.ranks, [&](const RankSize& rank) {
           return has(rank.tensor) && !rank.gguf_key.empty() && rank.parts > 0;
         });
}
static_assert(std::ranges::all_of(kTable, complete), "sign, sizes and their tensors are said");

}  // namespace

std::span<const Version> versions() { return kTable; }

const Version& version_of(int number) {
  const auto* found = std::ranges::find(kTable, number, &Version::number);
  FULMAR_CHECK(found != std::end(kTable));
  return *found;
}

std::vector<int64_t> shape_of(const ModelTensor& tensor, const ModelConfig& config) {
  std::vector<int64_t> shape;
  for (const Dim& dim : tensor.shape) {
    if (dim.times != 0) shape.push_back(dim.of(config));
  }
  return shape;
}

int64_t low_ranks(const ModelConfig& config) {
  int64_t sum = 0;
  for (const RankSize& rank : version_of(config.version).ranks) sum += rank.parts * (config.*rank.size);
  return sum;
}

std::string each_version(std::string_view before, std::string_view between) {
  std::string text;
  for (const Version& version : kTable) {
    text += std::string(text.empty() ? "" : between) + std::string(before) + std::to_string(version.number);
  }
  return text;
}

}  // namespace fulmar
