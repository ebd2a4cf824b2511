#include "adapters/delta_rows.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/function_ref.h"
#include "base/thread.h"

namespace fulmar {
namespace {

constexpr size_t kRowsAtOnce = 16;
constexpr float kNormGuard = 1e-6f;  // OpenMOSE's

size_t at(int64_t value) { return static_cast<size_t>(value); }

// A delta's numbers, widened.
struct Numbers {
  std::vector<float> a, b, d, m;
  size_t rank = 0, out = 0, in = 0;
};

Numbers numbers_of(const Delta& delta, const LinearShape& shape) {
  Numbers numbers{{}, {}, {}, {}, at(delta.rank()), at(shape.out), at(shape.in)};
  for (const auto& [from, to] : {std::pair(&delta.a, &numbers.a),
                                 {&delta.b, &numbers.b},
                                 {&delta.d, &numbers.d},
                                 {&delta.m, &numbers.m}}) {
    if (!from->empty()) *to = from->floats();
  }
  return numbers;
}

// Calls `work(thread, row)` for all rows, on every core.
void for_rows(size_t rows, FunctionRef<void(unsigned thread, size_t row)> work) {
  std::atomic<size_t> next = 0;
  run_on_threads(processor_threads(), [&](unsigned thread) {
    for (size_t first = next.fetch_add(kRowsAtOnce); first < rows; first = next.fetch_add(kRowsAtOnce)) {
      for (size_t row = first; row < std::min(rows, first + kRowsAtOnce); row++) work(thread, row);
    }
  });
}

// Writes row `o` of s B A.
void pair_row(const Numbers& n, float s, size_t o, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0f);
  for (size_t k = 0; k < n.rank; k++) {
    const float factor = s * n.b[o * n.rank + k];
    const float* const a = n.a.data() + k * n.in;
    for (size_t i = 0; i < n.in; i++) out[i] += factor * a[i];
  }
}

// Writes row `o` of ΔW of Bat; `w` is that row of W.
void bat_row(const Numbers& n, bool by_inputs, size_t o, std::span<const float> w, std::span<float> out) {
  const size_t r = n.rank;
  for (size_t block = 0; block < n.in / r; block++) {
    const float* const d = n.d.data() + (by_inputs ? block : o / r) * r * r;
    float* const to = out.data() + block * r;
    std::copy(d + (o % r) * r, d + (o % r + 1) * r, to);
    for (size_t k = 0; k < r; k++) {
      const float factor = w[block * r + k];
      for (size_t j = 0; j < r; j++) to[j] += factor * d[k * r + j];
    }
  }
}

double norm_of(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

// Returns the norms of V = W + s B A, of its rows or of its columns.
std::vector<float> norms_of(const Numbers& n, float s, bool rows, std::span<const float> w) {
  std::vector<float> norms(rows ? n.out : n.in);
  std::vector<std::vector<double>> squares(processor_threads());
  for_rows(n.out, [&](unsigned thread, size_t o) {
    std::vector<float> v(n.in);
    pair_row(n, s, o, v);
    for (size_t i = 0; i < n.in; i++) v[i] += w[o * n.in + i];
    if (rows) {
      norms[o] = static_cast<float>(norm_of(v));
      return;
    }
    squares[thread].resize(n.in);
    for (size_t i = 0; i < n.in; i++)
      squares[thread][i] += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  });
  for (size_t i = 0; !rows && i < n.in; i++) {
    double sum = 0;
    for (const auto& one : squares) sum += one.empty() ? 0 : one[i];
    norms[i] = static_cast<float>(std::sqrt(sum));
  }
  return norms;
}

}  // namespace

std::vector<float> dora_gain(const Delta& delta, const LinearShape& shape, std::span<const float> w) {
  const Numbers n = numbers_of(delta, shape);
  const bool rows = delta.kind == DeltaKind::dora_out;
  std::vector<float> gain = norms_of(n, static_cast<float>(delta.scale), rows, w);
  for (size_t i = 0; i < gain.size(); i++) gain[i] = n.m[i] / (gain[i] + (rows ? 0.0f : kNormGuard));
  return gain;
}

void add_delta(const Delta& delta, float t, const LinearShape& shape, std::span<float> w) {
  const Numbers n = numbers_of(delta, shape);
  const auto s = static_cast<float>(delta.scale);
  const bool by_rows = delta.kind == DeltaKind::dora_out, by_columns = delta.kind == DeltaKind::dora_in;
  const std::vector<float> gain = by_rows || by_columns ? dora_gain(delta, shape, w) : std::vector<float>();
  for_rows(n.out, [&](unsigned, size_t o) {
    const std::span<float> row = w.subspan(o * n.in, n.in);
    std::vector<float> change(n.in);
    if (delta.kind == DeltaKind::miss) {
      for (size_t i = 0; i < n.in; i++) change[i] = s * n.d[i % n.rank * n.out + o];
    } else if (!n.d.empty()) {
      bat_row(n, delta.kind == DeltaKind::bat_in, o, row, change);
    } else {
      pair_row(n, s, o, change);
    }
    for (size_t i = 0; (by_rows || by_columns) && i < n.in; i++) {
      change[i] = gain[by_rows ? o : i] * (row[i] + change[i]) - row[i];
    }
    for (size_t i = 0; i < n.in; i++) row[i] += t * change[i];
  });
}

}  // namespace fulmar
