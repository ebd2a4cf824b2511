// An adapter in one plain form, whatever program wrote its file: deltas on matrices, whole tensors that take
// the place of the model's, and initial states. W is a matrix of the model as [out, in], y = x Wᵀ.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/host_tensor.h"

namespace fulmar {

enum class AdapterForm : uint8_t {
  rwkv_peft,  // RWKV-PEFT's own files and OpenMOSE's, .pth or .safetensors
  peft,       // a folder of Hugging Face PEFT
  lightning,  // rwkv_lightning's MiSS packages and checkpoints
  gguf,       // llama.cpp's LoRA
  web_rwkv,   // web-rwkv's and Ai00's LoRA
  state,      // a tuned state alone
};

// Returns "RWKV-PEFT", "Hugging Face PEFT", ...
std::string_view name_of(AdapterForm form);

enum class DeltaKind : uint8_t {
  low_rank,  // a [r, in], b [out, r]       ΔW = s b a
  miss,      // d [r, out]                  ΔW[o, i] = s d[i mod r, o]
  bat_in,    // d [in/r, r, r]              ΔW[a, b] = W[a, b] d[b] + d[b], r x r blocks: a of outputs, b of
             // inputs
  bat_out,   // d [out/r, r, r]             ΔW[a, b] = W[a, b] d[a] + d[a]
  dora_out,  // a, b, m [out]               W + ΔW = diag(m / |V's rows|) V, V = W + s b a
  dora_in,   // a, b, m [in]                W + ΔW = V diag(m / (|V's columns| + 1e-6))
};

// Returns "LoRA", "MiSS", ...
std::string_view name_of(DeltaKind kind);

// What an adapter does to one matrix. Low-rank parts (att.w1, ...) and the embedding lie input-major in
// official files; their deltas are those of the transpose, so that in and out mean the same everywhere.
struct Delta {
  std::string weight;  // official name, "blocks.3.att.key.weight"
  DeltaKind kind = DeltaKind::low_rank;
  HostTensor a, b, d, m;  // those of the kind; the others are empty
  double scale = 1;       // s
  int64_t inputs = 0;     // as the file says; 0: it does not say
  bool mini = false;      // miss: d is [r, n] and repeats along the outputs; fit_adapter expands it

  int64_t rank() const;
};

struct WholeTensor {
  std::string name;  // official
  HostTensor value;
};

struct Adapter {
  AdapterForm form = AdapterForm::rwkv_peft;
  int version = 0;                   // of the models it is for; 0: the file does not say
  std::vector<Delta> deltas;         // in the order of their names, as the others
  std::vector<WholeTensor> whole;    // each takes the place of the model's
  std::vector<WholeTensor> states;   // blocks.<l>.att.time_state [head][value][key]
  bool scale_known = true;           // false: s needs an alpha that the file does not hold
  std::string base_fingerprint;      // SHA-256 of the base model's file; empty: unknown
  std::string content_version;       // SHA-256 of the content; that of the package where it has one
  std::vector<std::string> remarks;  // what a reader found and ignored

  uint64_t bytes() const;  // of all numbers
  // Returns the least rank of the deltas; 0 without any.
  int64_t least_rank() const;
  // Returns the largest.
  int64_t most_rank() const;
};

// Returns SHA-256 of what an adapter does: kinds, names, scales, shapes and numbers, whatever file held them.
std::string digest_of(const Adapter& adapter);

inline constexpr int64_t kMostAdapterRank = 1024;

}  // namespace fulmar
