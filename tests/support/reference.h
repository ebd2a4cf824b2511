// Both models in double precision and plain loops, written from the papers' equations and sharing no code
// with the engine: the oracle of model and op tests.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace fulmar::support {

// Official names and orientation; vectors as [C] or [1, 1, C].
struct NamedTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};
using NamedTensors = std::map<std::string, NamedTensor>;

struct ReferenceLayer {
  std::vector<double> att_shift;  // [C]
  std::vector<double> wkv;        // [H, N, N], row = value channel, column = key channel, both versions
  std::vector<double> ffn_shift;  // [C]
};
using ReferenceState = std::vector<ReferenceLayer>;

class ReferenceModel {
 public:
  explicit ReferenceModel(NamedTensors tensors);

  int version() const { return version_; }
  int64_t n_layer() const { return n_layer_; }
  int64_t n_embd() const { return n_embd_; }
  int64_t n_head() const { return n_head_; }
  int64_t vocab() const { return vocab_; }

  ReferenceState zero_state() const;
  // Feeds the tokens; returns the logits [tokens, V] after each of them, row by row.
  std::vector<std::vector<double>> forward(std::span<const int32_t> tokens, ReferenceState& state) const;
  // The final-norm hidden vector of the last token fed by forward.
  const std::vector<double>& last_hidden() const { return hidden_; }

 private:
  using Vector = std::vector<double>;

  const NamedTensor& get(const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.contains(name); }
  Vector layer_norm(const Vector& x, const std::string& name) const;
  Vector head_norm(const Vector& y, const std::string& name) const;
  Vector matrix(const std::string& name, const Vector& x) const;    // W [out, in]: W x
  Vector low_rank(const std::string& name, const Vector& x) const;  // W [in, out]: x W
  Vector mixed(const std::string& name, const Vector& z, const Vector& previous) const;
  Vector embedded(int32_t token) const;
  Vector att7(int64_t layer, const Vector& z, ReferenceLayer& state, Vector& v_first) const;
  Vector ffn7(int64_t layer, const Vector& z, ReferenceLayer& state, int32_t token) const;
  Vector att6(int64_t layer, const Vector& z, ReferenceLayer& state) const;
  Vector ffn6(int64_t layer, const Vector& z, ReferenceLayer& state) const;

  NamedTensors tensors_;
  int version_ = 7;
  int64_t n_layer_ = 0, n_embd_ = 0, n_head_ = 0, head_size_ = 0, vocab_ = 0;
  mutable Vector hidden_;
};

}  // namespace fulmar::support
