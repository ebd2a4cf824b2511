#include "model/synthetic.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/check.h"
#include "tensor/convert.h"

namespace fulmar {

namespace {

using Shape = std::vector<int64_t>;

// A value is base + amplitude * (2u - 1) with u uniform in [0, 1).
struct Range {
  double base;
  double amplitude;
};

class List {
 public:
  void add(const std::string& name, Shape shape) { tensors_.push_back({name, std::move(shape)}); }
  void norm(const std::string& name, int64_t n) {
    add(name + ".weight", {n});
    add(name + ".bias", {n});
  }
  std::vector<SyntheticTensor> take() { return std::move(tensors_); }

 private:
  std::vector<SyntheticTensor> tensors_;
};

void list_att7(List& list, const SyntheticShape& shape, const std::string& p, bool first_block) {
  const int64_t c = shape.n_embd();
  for (const char q : std::string_view("rwkvag")) list.add(p + "x_" + q, {1, 1, c});
  const auto low_rank = [&](const std::string& name, int64_t rank, bool biased) {
    if (biased) list.add(p + name + "0", {1, 1, c});
    list.add(p + name + "1", {c, rank});
    list.add(p + name + "2", {rank, c});
  };
  low_rank("w", shape.rank_w, true);
  low_rank("a", shape.rank_a, true);
  if (!first_block) low_rank("v", shape.rank_v, true);
  low_rank("g", shape.rank_g, false);
  list.add(p + "k_k", {1, 1, c});
  list.add(p + "k_a", {1, 1, c});
  list.add(p + "r_k", {shape.n_head, shape.head_size});
  for (const char* name : {"receptance", "key", "value", "output"}) list.add(p + name + ".weight", {c, c});
}

void list_att6(List& list, const SyntheticShape& shape, const std::string& p) {
  const int64_t c = shape.n_embd();
  for (const char q : std::string_view("xwkvrg")) list.add(p + "time_maa_" + q, {1, 1, c});
  list.add(p + "time_maa_w1", {c, 5 * shape.rank_mix});
  list.add(p + "time_maa_w2", {5, shape.rank_mix, c});
  list.add(p + "time_decay", {1, 1, c});
  list.add(p + "time_decay_w1", {c, shape.rank_decay});
  list.add(p + "time_decay_w2", {shape.rank_decay, c});
  list.add(p + "time_faaaa", {shape.n_head, shape.head_size});
  for (const char* name : {"receptance", "key", "value", "gate", "output"}) {
    list.add(p + name + ".weight", {c, c});
  }
}

void list_ffn(List& list, const SyntheticShape& shape, const std::string& p) {
  const int64_t c = shape.n_embd(), f = shape.n_ffn, d = shape.deep_rank;
  if (shape.version == 7) {
    list.add(p + "x_k", {1, 1, c});
    if (d > 0) {
      list.add(p + "s_emb.weight", {shape.vocab, d * d});
      list.add(p + "s_emb_x.weight", {d * d, c});
      list.add(p + "s1", {c, d});
      list.add(p + "s2", {d, f});
      list.add(p + "s0", {1, 1, f});
    }
  } else {
    list.add(p + "time_maa_k", {1, 1, c});
    list.add(p + "time_maa_r", {1, 1, c});
    list.add(p + "receptance.weight", {c, c});
  }
  list.add(p + "key.weight", {f, c});
  list.add(p + "value.weight", {c, f});
}

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Range range_of(const SyntheticTensor& tensor) {
  const std::string_view name = tensor.name;
  const std::string_view last = name.substr(name.rfind('.') + 1);
  const auto fan = [&](size_t axis) { return static_cast<double>(tensor.shape[axis]); };
  if (name == "emb.weight") return {0, 1};
  if (name.ends_with("s_emb.weight") || name.ends_with("s_emb_x.weight")) return {0, 0.3};
  if (last == "weight" && tensor.shape.size() == 2) return {0, std::sqrt(3.0 / fan(1))};
  if (last == "weight") return {1, 0.25};
  if (last == "bias") return {0, 0.1};
  if (one_of(last, {"w1", "a1", "v1", "g1", "s1", "time_maa_w1", "time_decay_w1"})) {
    return {0, std::sqrt(3.0 / fan(0))};
  }
  if (one_of(last, {"w2", "a2", "v2", "g2", "s2", "time_maa_w2", "time_decay_w2"})) {
    return {0, 1.0 / std::sqrt(fan(tensor.shape.size() - 2))};
  }
  if (last.starts_with("x_") || last.starts_with("time_maa_")) return {0.5, 0.5};
  if (last == "w0") return {-2, 4};
  if (last == "a0") return {0, 1};
  if (last == "v0") return {0.7, 0.5};
  if (last == "k_k") return {0.7, 0.3};
  if (one_of(last, {"k_a", "s0"})) return {1, 0.2};
  if (last == "r_k") return {0, 0.2};
  if (last == "time_decay") return {-2, 3};
  if (one_of(last, {"time_faaaa", "time_state"})) return {0, 0.5};
  FULMAR_CHECK(false, "every listed tensor has a range");
}

uint64_t hash_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char ch : name) hash = (hash ^ static_cast<unsigned char>(ch)) * 0x100000001b3u;
  return hash;
}

}  // namespace

std::vector<SyntheticTensor> synthetic_tensors(const SyntheticShape& shape) {
  const int64_t c = shape.n_embd();
  List list;
  list.add("emb.weight", {shape.vocab, c});
  for (int64_t l = 0; l < shape.n_layer; l++) {
    const std::string block = "blocks." + std::to_string(l) + ".";
    if (l == 0) list.norm(block + "ln0", c);
    list.norm(block + "ln1", c);
    list.norm(block + "ln2", c);
    const std::string att = block + "att.";
    shape.version == 7 ? list_att7(list, shape, att, l == 0) : list_att6(list, shape, att);
    list.norm(att + "ln_x", c);
    if (shape.time_state) list.add(att + "time_state", {shape.n_head, shape.head_size, shape.head_size});
    list_ffn(list, shape, block + "ffn.");
  }
  list.norm("ln_out", c);
  list.add("head.weight", {shape.vocab, c});
  return list.take();
}

void fill_synthetic(const SyntheticTensor& tensor, int64_t first, std::span<float> out, uint64_t seed) {
  const Range range = range_of(tensor);
  const uint64_t hash = hash_of(tensor.name) ^ seed;
  for (size_t i = 0; i < out.size(); i++) {
    uint64_t z = hash + (static_cast<uint64_t>(first) + i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double u = static_cast<double>(z >> 40) * 0x1p-24;
    out[i] = static_cast<float>(range.base + range.amplitude * (2 * u - 1));
  }
}

std::unique_ptr<Checkpoint> make_synthetic(const SyntheticShape& shape, DType dtype, uint64_t seed) {
  constexpr int64_t kPiece = 1 << 16;  // elements a thread makes at a time
  const std::vector<SyntheticTensor> list = synthetic_tensors(shape);
  CheckpointParts parts;
  parts.description = "synthetic, " + std::string(name_of(dtype));
  struct Piece {
    size_t tensor;
    int64_t first, count;
    std::byte* target;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < list.size(); i++) {
    StoredTensor tensor{list[i].name, dtype, list[i].shape, row_major_strides(list[i].shape), nullptr};
    const int64_t count = tensor.count();
    std::shared_ptr<std::byte[]> memory(new std::byte[tensor.bytes()]);
    for (int64_t at = 0; at < count; at += kPiece) {
      pieces.push_back(
          {i, at, std::min(kPiece, count - at), memory.get() + static_cast<size_t>(at) * size_of(dtype)});
    }
    tensor.data = memory.get();
    parts.owners.push_back(memory);
    parts.tensors.push_back(std::move(tensor));
  }
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    std::vector<float> values;
    for (size_t i = next++; i < pieces.size(); i = next++) {
      const Piece& piece = pieces[i];
      values.resize(static_cast<size_t>(piece.count));
      fill_synthetic(list[piece.tensor], piece.first, values, seed);
      from_f32(values, dtype, piece.target);
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); i++) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return make_checkpoint(std::move(parts));
}

}  // namespace fulmar
