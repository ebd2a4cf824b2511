// One model under the names and in the shapes that other programs give its tensors.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/checkpoint.h"
#include "files/file_builders.h"

namespace fulmar::test {

// A converter's output: tensors with memory of their own.
struct Converted {
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<std::byte>> memory;

  void add(std::string name, StoredTensor view) {
    memory.push_back(gather_contiguous(view));
    view.name = std::move(name);
    view.strides = row_major_strides(view.shape);
    view.data = memory.back().data();
    tensors.push_back(std::move(view));
  }
};

inline StoredTensor swapped(StoredTensor tensor) {
  const size_t rank = tensor.shape.size();
  std::swap(tensor.shape[rank - 1], tensor.shape[rank - 2]);
  std::swap(tensor.strides[rank - 1], tensor.strides[rank - 2]);
  return tensor;
}

inline bool is_low_rank(std::string_view name) {
  for (const char* end :
       {".w1", ".w2", ".a1", ".a2", ".v1", ".v2", ".g1", ".g2", "maa_w1", "maa_w2", "decay_w1", "decay_w2"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline Converted as_web_rwkv(const Checkpoint& official) {
  Converted out;
  for (const StoredTensor& t : official.tensors()) {
    const std::string name = replaced(replaced(t.name, "time_faaaa", "time_first"), "time_maa", "time_mix");
    out.add(name, is_low_rank(t.name) ? swapped(t) : t);
  }
  return out;
}

using NameTable = std::vector<std::pair<std::string_view, std::string_view>>;

inline std::string renamed(std::string name, const NameTable& table) {
  for (const auto& [from, to] : table) name = replaced(std::move(name), from, to);
  return name;
}

inline const NameTable kFlaCommon = {{"emb.weight", "model.embeddings.weight"},
                                     {"ln_out.", "model.norm."},
                                     {"head.weight", "lm_head.weight"},
                                     {"blocks.", "model.layers."},
                                     {".ln0.", ".pre_norm."},
                                     {".ln1.", ".attn_norm."},
                                     {".ln2.", ".ffn_norm."},
                                     {".att.", ".attn."},
                                     {"attn.ln_x.", "attn.g_norm."},
                                     {"attn.output.", "attn.o_proj."}};

inline StoredTensor without_unit_axes(StoredTensor tensor) {
  if (tensor.shape.size() == 3 && tensor.shape[0] == 1) {
    tensor.shape = {tensor.shape[2]};
    tensor.strides = {1};
  }
  return tensor;
}

// fused: the older form with one attn.x_x for the six mixes.
inline Converted as_fla7(const Checkpoint& official, bool fused) {
  Converted out;
  for (const StoredTensor& t : official.tensors()) {
    std::string name = renamed(t.name, kFlaCommon);
    name = renamed(name, {{"attn.receptance.", "attn.r_proj."},
                          {"attn.key.", "attn.k_proj."},
                          {"attn.value.", "attn.v_proj."}});
    const size_t last = name.rfind('.') + 1;
    if (fused && name.substr(last).starts_with("x_") && name.find("attn") != std::string::npos) {
      if (name.substr(last) != "x_r") continue;
      std::vector<std::byte> stacked;
      for (const char letter : std::string("rwkvag")) {
        const auto one =
            gather_contiguous(*official.find(replaced(t.name, "x_r", std::string("x_") + letter)));
        stacked.insert(stacked.end(), one.begin(), one.end());
      }
      const int64_t c = t.count();
      out.memory.push_back(std::move(stacked));
      out.tensors.push_back(
          tensor_over(replaced(name, "x_r", "x_x"), t.dtype, {6, c}, out.memory.back().data()));
      continue;
    }
    const bool factor = name.size() == last + 2 && std::string("wavg").find(name[last]) != std::string::npos;
    if (!factor) {
      out.add(name, without_unit_axes(t));
      continue;
    }
    const std::string stem = name.substr(0, last) + name[last] + "_lora.lora.";
    const char* tail[] = {"2.bias", "0.weight", "2.weight"};
    const int kind = name[last + 1] - '0';
    out.add(stem + tail[kind], kind == 0 ? without_unit_axes(t) : swapped(t));
  }
  return out;
}

inline Converted as_fla6(const Checkpoint& official) {
  constexpr int kFrom[] = {3, 0, 1, 2, 4};  // r, w, k, v, g taken from w, k, v, r, g
  Converted out;
  for (const StoredTensor& t : official.tensors()) {
    std::string name = renamed(t.name, kFlaCommon);
    const std::string stem = name.substr(0, name.find("attn.") + 5);
    const auto ends = [&](const char* end) { return t.name.ends_with(end); };
    if (ends("att.time_maa_w1")) {  // [C, 5*Rm] -> [5*Rm, C]
      const int64_t c = t.shape[0], rank = t.shape[1] / 5;
      std::vector<float> from(static_cast<size_t>(t.count())), to(from.size());
      copy_as_f32(t, from);
      for (int64_t q = 0; q < 5; q++) {
        for (int64_t r = 0; r < rank; r++) {
          for (int64_t i = 0; i < c; i++)
            to[(q * rank + r) * c + i] = from[i * 5 * rank + kFrom[q] * rank + r];
        }
      }
      out.add(stem + "x_proj.0.linear.weight", tensor_over("", DType::f32, {5 * rank, c}, to.data()));
    } else if (ends("att.time_maa_w2")) {  // [5, Rm, C] -> [C, 5*Rm]
      const int64_t rank = t.shape[1], c = t.shape[2];
      std::vector<float> from(static_cast<size_t>(t.count())), to(from.size());
      copy_as_f32(t, from);
      for (int64_t q = 0; q < 5; q++) {
        for (int64_t r = 0; r < rank; r++) {
          for (int64_t i = 0; i < c; i++)
            to[i * 5 * rank + q * rank + r] = from[(kFrom[q] * rank + r) * c + i];
        }
      }
      out.add(stem + "x_proj.2.weight", tensor_over("", DType::f32, {c, 5 * rank}, to.data()));
    } else if (ends("att.time_maa_r")) {
      const int64_t c = t.count();
      std::vector<std::byte> stacked;
      for (const char letter : std::string("rwkvg")) {
        const auto one =
            gather_contiguous(*official.find(replaced(t.name, "maa_r", std::string("maa_") + letter)));
        stacked.insert(stacked.end(), one.begin(), one.end());
      }
      out.add(stem + "x_bias", tensor_over("", DType::f32, {5, c}, stacked.data()));
    } else if (ends("att.time_maa_w") || ends("att.time_maa_k") || ends("att.time_maa_v") ||
               ends("att.time_maa_g")) {
      continue;
    } else {
      name = renamed(name, {{"attn.time_maa_x", "attn.x_proj.0.mu"},
                            {"attn.time_decay_w1", "attn.w_proj.linear.lora.0.weight"},
                            {"attn.time_decay_w2", "attn.w_proj.linear.lora.2.weight"},
                            {"attn.time_decay", "attn.w_proj.linear.lora.2.bias"},
                            {"attn.time_faaaa", "attn.bonus"},
                            {"attn.receptance.", "attn.r_proj.linear."},
                            {"attn.key.", "attn.k_proj.linear."},
                            {"attn.value.", "attn.v_proj.linear."},
                            {"attn.gate.", "attn.g_proj.linear."},
                            {"ffn.key.", "ffn.key.linear."},
                            {"ffn.receptance.", "ffn.receptance.linear."},
                            {"ffn.time_maa_k", "ffn.key.mu"},
                            {"ffn.time_maa_r", "ffn.receptance.mu"}});
      out.add(name, is_low_rank(t.name) ? swapped(t) : without_unit_axes(t));
    }
  }
  return out;
}

inline Converted as_hf6(const Checkpoint& official) {
  const NameTable table = {{"emb.", "rwkv.embeddings."}, {"ln_out.", "rwkv.ln_out."},
                           {"blocks.", "rwkv.blocks."},  {".ln0.", ".pre_ln."},
                           {".att.", ".attention."},     {".ffn.", ".feed_forward."}};
  Converted out;
  for (const StoredTensor& t : official.tensors()) out.add(renamed(t.name, table), t);
  return out;
}

// As Transformers' Rwkv7ForCausalLM names them: all but the head behind `prefix`, the embedding as told.
inline Converted as_body(const Checkpoint& official, const std::string& prefix,
                         const std::string& embedding) {
  Converted out;
  for (const StoredTensor& t : official.tensors()) {
    const bool head = t.name == "head.weight";
    out.add(head ? t.name : prefix + (t.name == "emb.weight" ? embedding : t.name), t);
  }
  return out;
}

}  // namespace fulmar::test
