// Both models in double precision, one token at a time.
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace fulmar::support {

namespace {

using Vector = std::vector<double>;

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

template <class Function>
Vector each(Vector x, Function f) {
  for (double& value : x) value = f(value);
  return x;
}

Vector sum(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); i++) a[i] += b[i];
  return a;
}

Vector product(Vector a, const Vector& b) {
  for (size_t i = 0; i < a.size(); i++) a[i] *= b[i];
  return a;
}

Vector relu_squared(Vector x) {
  return each(std::move(x), [](double v) { return v > 0 ? v * v : 0.0; });
}

void normalise(const double* x, const double* weight, const double* bias, size_t n, double eps, double* out) {
  double mean = 0, variance = 0;
  for (size_t i = 0; i < n; i++) mean += x[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
  for (size_t i = 0; i < n; i++) out[i] = (x[i] - mean) / std::sqrt(variance + eps) * weight[i] + bias[i];
}

std::string block(int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

}  // namespace

ReferenceModel::ReferenceModel(NamedTensors tensors) : tensors_(std::move(tensors)) {
  version_ = has("blocks.0.att.r_k") ? 7 : 6;
  const NamedTensor& heads = get(version_ == 7 ? "blocks.0.att.r_k" : "blocks.0.att.time_faaaa");
  n_head_ = heads.shape[0];
  head_size_ = heads.shape[1];
  vocab_ = get("emb.weight").shape[0];
  n_embd_ = get("emb.weight").shape[1];
  while (has(block(n_layer_) + "ln1.weight")) n_layer_++;
}

const NamedTensor& ReferenceModel::get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    std::fprintf(stderr, "reference model: no tensor %s\n", name.c_str());
    std::abort();
  }
  return found->second;
}

ReferenceState ReferenceModel::zero_state() const {
  const auto width = static_cast<size_t>(n_embd_);
  ReferenceLayer zero{Vector(width), Vector(width * static_cast<size_t>(head_size_)), Vector(width)};
  return ReferenceState(static_cast<size_t>(n_layer_), zero);
}

Vector ReferenceModel::layer_norm(const Vector& x, const std::string& name) const {
  Vector out(x.size());
  normalise(x.data(), get(name + ".weight").values.data(), get(name + ".bias").values.data(), x.size(), 1e-5,
            out.data());
  return out;
}

Vector ReferenceModel::head_norm(const Vector& y, const std::string& name) const {
  Vector out(y.size());
  for (size_t at = 0; at < y.size(); at += static_cast<size_t>(head_size_)) {
    normalise(y.data() + at, get(name + ".weight").values.data() + at, get(name + ".bias").values.data() + at,
              static_cast<size_t>(head_size_), 64e-5, out.data() + at);
  }
  return out;
}

Vector ReferenceModel::matrix(const std::string& name, const Vector& x) const {
  const Vector& w = get(name).values;
  Vector out(w.size() / x.size());
  for (size_t o = 0; o < out.size(); o++) {
    for (size_t i = 0; i < x.size(); i++) out[o] += w[o * x.size() + i] * x[i];
  }
  return out;
}

Vector ReferenceModel::low_rank(const std::string& name, const Vector& x) const {
  const Vector& w = get(name).values;
  Vector out(w.size() / x.size());
  for (size_t i = 0; i < x.size(); i++) {
    for (size_t o = 0; o < out.size(); o++) out[o] += x[i] * w[i * out.size() + o];
  }
  return out;
}

Vector ReferenceModel::mixed(const std::string& name, const Vector& z, const Vector& previous) const {
  const Vector& mix = get(name).values;
  Vector out(z);
  for (size_t i = 0; i < z.size(); i++) out[i] += (previous[i] - z[i]) * mix[i];
  return out;
}

Vector ReferenceModel::embedded(int32_t token) const {
  const Vector& table = get("emb.weight").values;
  const auto begin = table.begin() + token * n_embd_;
  return layer_norm(Vector(begin, begin + n_embd_), "blocks.0.ln0");
}

Vector ReferenceModel::att7(int64_t layer, const Vector& z, ReferenceLayer& state, Vector& v_first) const {
  const std::string p = block(layer) + "att.";
  const Vector& last = state.att_shift;
  const Vector xv = mixed(p + "x_v", z, last);
  const Vector r = matrix(p + "receptance.weight", mixed(p + "x_r", z, last));
  Vector k = matrix(p + "key.weight", mixed(p + "x_k", z, last));
  Vector v = matrix(p + "value.weight", xv);
  const auto tanh_of = [](double x) { return std::tanh(x); };
  const Vector u = sum(low_rank(p + "w2", each(low_rank(p + "w1", mixed(p + "x_w", z, last)), tanh_of)),
                       get(p + "w0").values);
  const Vector w = each(u, [](double x) { return std::exp(-std::exp(-0.5) * sigmoid(x)); });
  const Vector alpha = each(
      sum(low_rank(p + "a2", low_rank(p + "a1", mixed(p + "x_a", z, last))), get(p + "a0").values), sigmoid);
  const Vector g = low_rank(p + "g2", each(low_rank(p + "g1", mixed(p + "x_g", z, last)), sigmoid));
  if (layer == 0) {
    v_first = v;
  } else {
    const Vector share = each(sum(low_rank(p + "v2", low_rank(p + "v1", xv)), get(p + "v0").values), sigmoid);
    for (size_t i = 0; i < v.size(); i++) v[i] += (v_first[i] - v[i]) * share[i];
  }
  Vector kk = product(k, get(p + "k_k").values);
  for (size_t i = 0; i < k.size(); i++) k[i] *= 1 + (alpha[i] - 1) * get(p + "k_a").values[i];

  const auto n = static_cast<size_t>(head_size_);
  Vector y(z.size()), bonus(z.size());
  for (size_t at = 0; at < z.size(); at += n) {
    double length = 0, agreement = 0;
    for (size_t j = at; j < at + n; j++) length += kk[j] * kk[j];
    for (size_t j = at; j < at + n; j++) kk[j] /= std::max(std::sqrt(length), 1e-12);
    for (size_t j = at; j < at + n; j++) agreement += r[j] * k[j] * get(p + "r_k").values[j];
    for (size_t i = at; i < at + n; i++) {
      double* row = state.wkv.data() + i * n;
      double removed = 0;
      for (size_t j = 0; j < n; j++) removed -= row[j] * kk[at + j];
      for (size_t j = 0; j < n; j++) {
        row[j] = row[j] * w[at + j] + removed * kk[at + j] * alpha[at + j] + v[i] * k[at + j];
        y[i] += row[j] * r[at + j];
      }
      bonus[i] = agreement * v[i];
    }
  }
  return matrix(p + "output.weight", product(sum(head_norm(y, p + "ln_x"), bonus), g));
}

Vector ReferenceModel::ffn7(int64_t layer, const Vector& z, ReferenceLayer& state, int32_t token) const {
  const std::string p = block(layer) + "ffn.";
  Vector h = relu_squared(matrix(p + "key.weight", mixed(p + "x_k", z, state.ffn_shift)));
  if (has(p + "s_emb.weight")) {
    const auto rank = static_cast<size_t>(get(p + "s1").shape[1]);
    Vector e = matrix(p + "s_emb_x.weight", embedded(token));
    for (size_t i = 0; i < e.size(); i++) {
      e[i] += get(p + "s_emb.weight").values[static_cast<size_t>(token) * e.size() + i];
    }
    const Vector low = low_rank(p + "s1", z);
    Vector by_token(rank);
    for (size_t d = 0; d < rank; d++) {
      for (size_t c = 0; c < rank; c++) by_token[c] += low[d] * e[d * rank + c];
    }
    h = product(h, sum(low_rank(p + "s2", by_token), get(p + "s0").values));
  }
  return matrix(p + "value.weight", h);
}

Vector ReferenceModel::att6(int64_t layer, const Vector& z, ReferenceLayer& state) const {
  const std::string p = block(layer) + "att.";
  const Vector& last = state.att_shift;
  const Vector low = each(low_rank(p + "time_maa_w1", mixed(p + "time_maa_x", z, last)),
                          [](double x) { return std::tanh(x); });
  const NamedTensor& w2 = get(p + "time_maa_w2");
  const auto rank = static_cast<size_t>(w2.shape[1]);
  Vector x[5];
  const std::string letters = "wkvrg";
  for (size_t q = 0; q < 5; q++) {
    x[q] = z;
    const Vector& mix = get(p + "time_maa_" + letters[q]).values;
    for (size_t c = 0; c < z.size(); c++) {
      double m = mix[c];
      for (size_t i = 0; i < rank; i++) m += low[q * rank + i] * w2.values[(q * rank + i) * z.size() + c];
      x[q][c] += (last[c] - z[c]) * m;
    }
  }
  const Vector r = matrix(p + "receptance.weight", x[3]);
  const Vector k = matrix(p + "key.weight", x[1]);
  const Vector v = matrix(p + "value.weight", x[2]);
  const Vector g = each(matrix(p + "gate.weight", x[4]), [](double a) { return a * sigmoid(a); });
  const Vector decay = sum(low_rank(p + "time_decay_w2", each(low_rank(p + "time_decay_w1", x[0]),
                                                              [](double a) { return std::tanh(a); })),
                           get(p + "time_decay").values);
  const Vector& bonus = get(p + "time_faaaa").values;
  const auto n = static_cast<size_t>(head_size_);
  Vector y(z.size());
  for (size_t at = 0; at < z.size(); at += n) {
    for (size_t i = at; i < at + n; i++) {
      for (size_t j = at; j < at + n; j++) {
        double& cell = state.wkv[i * n + j - at];
        y[i] += r[j] * (cell + bonus[j] * k[j] * v[i]);
        cell = std::exp(-std::exp(decay[j])) * cell + k[j] * v[i];
      }
    }
  }
  return matrix(p + "output.weight", product(head_norm(y, p + "ln_x"), g));
}

Vector ReferenceModel::ffn6(int64_t layer, const Vector& z, ReferenceLayer& state) const {
  const std::string p = block(layer) + "ffn.";
  const Vector h = relu_squared(matrix(p + "key.weight", mixed(p + "time_maa_k", z, state.ffn_shift)));
  const Vector gate =
      each(matrix(p + "receptance.weight", mixed(p + "time_maa_r", z, state.ffn_shift)), sigmoid);
  return product(gate, matrix(p + "value.weight", h));
}

std::vector<Vector> ReferenceModel::forward(std::span<const int32_t> tokens, ReferenceState& state) const {
  std::vector<Vector> logits;
  for (const int32_t token : tokens) {
    Vector x = embedded(token), v_first;
    for (int64_t layer = 0; layer < n_layer_; layer++) {
      ReferenceLayer& own = state[static_cast<size_t>(layer)];
      Vector z = layer_norm(x, block(layer) + "ln1");
      x = sum(x, version_ == 7 ? att7(layer, z, own, v_first) : att6(layer, z, own));
      own.att_shift = z;
      z = layer_norm(x, block(layer) + "ln2");
      x = sum(x, version_ == 7 ? ffn7(layer, z, own, token) : ffn6(layer, z, own));
      own.ffn_shift = z;
    }
    hidden_ = layer_norm(x, "ln_out");
    logits.push_back(matrix("head.weight", hidden_));
  }
  return logits;
}

}  // namespace fulmar::support
