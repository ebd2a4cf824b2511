#include "rwkv6/vjp.h"

#include <algorithm>
#include <cmath>

namespace fulmar {
namespace {

// What a row gives to the recurrence of one head, N numbers each.
template <class Number>
struct HeadRow6 {
  const Number *r, *k, *v;
  std::vector<Number> w;
  std::vector<Number> slope;  // of w by its number before the activation: -w * exp(u), 0 where w is
};

template <class Number>
HeadRow6<Number> row_of(const HostProjected6<Number>& p, int64_t t, int64_t first, int64_t size) {
  HeadRow6<Number> row{p.r.row(t) + first, p.k.row(t) + first, p.v.row(t) + first};
  for (int64_t j = first; j < first + size; j++) {
    const Number rate = std::exp(p.u(t, j)), w = std::exp(-rate);
    row.w.push_back(w);
    row.slope.push_back(w > 0 ? -w * rate : 0);
  }
  return row;
}

// Computes S = S diag(w) + v k^T; S [value][key].
template <class Number>
void step(const HeadRow6<Number>& row, int64_t size, Number* s) {
  for (int64_t i = 0; i < size; i++) {
    for (int64_t j = 0; j < size; j++) {
      s[i * size + j] = s[i * size + j] * row.w[static_cast<size_t>(j)] + row.v[i] * row.k[j];
    }
  }
}

// One row of one head on the way back.
template <class Number>
struct HeadRowBack6 {
  const HeadRow6<Number>& row;
  const Number *before, *dy;  // S before the row, and the gradient of its y
  int64_t t, first, size;
};

// Adds the row's gradients to `d` and the bonus vector, and takes G, the gradient of the state [value][key],
// from behind the row to before it.
template <class Number>
void step_vjp(const HeadRowBack6<Number>& at, Parameter<Number>& bonus, Number* g,
              HostProjected6<Number>& d) {
  const HeadRow6<Number>& row = at.row;
  const int64_t size = at.size;
  const auto line_of = [&](Matrix<Number>& m) { return m.row(at.t) + at.first; };
  Number *dr = line_of(d.r), *dk = line_of(d.k), *dv = line_of(d.v), *du = line_of(d.u);
  const Number* u = bonus.value.row(0) + at.first;
  Number along = 0, weight = 0;  // v . dy, and r . u k, which this row's own v is multiplied by
  for (int64_t j = 0; j < size; j++) {
    along += row.v[j] * at.dy[j];
    weight += row.r[j] * u[j] * row.k[j];
  }
  for (int64_t j = 0; j < size; j++) {
    dr[j] += u[j] * row.k[j] * along;
    dk[j] += u[j] * row.r[j] * along;
    dv[j] += weight * at.dy[j];
    if (bonus.trained()) bonus.gradient(0, at.first + j) += row.r[j] * row.k[j] * along;
  }
  for (int64_t i = 0; i < size; i++) {
    const Number* before = at.before + i * size;
    Number* gi = g + i * size;
    for (int64_t j = 0; j < size; j++) {
      const auto from = static_cast<size_t>(j);
      dr[j] += before[j] * at.dy[i];
      dk[j] += gi[j] * row.v[i];
      dv[i] += gi[j] * row.k[j];
      du[j] += gi[j] * before[j] * row.slope[from];
      gi[j] = gi[j] * row.w[from] + at.dy[i] * row.r[j];
    }
  }
}

}  // namespace

template <class Number>
Matrix<Number> wkv6(SequenceBounds bounds, const HeadVectors6<Number>& vectors,
                    const HostProjected6<Number>& p, Matrix<Number>& state, KeptStates<Number>& kept) {
  Matrix<Number> y(p.r.rows, p.r.cols);
  const int64_t size = y.cols / vectors.n_head;
  kept.clear();
  for (int64_t s = 0; s < sequence_count(bounds); s++) {
    const int64_t begin = bounds[static_cast<size_t>(s)], end = bounds[static_cast<size_t>(s) + 1];
    for (int64_t t = begin; t < end; t++) {
      if ((t - begin) % kKeptEvery == 0) {
        kept.emplace_back(vectors.n_head, size * size);
        std::copy_n(state.row(s), state.cols, kept.back().row(0));
      }
      for (int64_t first = 0; first < y.cols; first += size) {
        const HeadRow6<Number> row = row_of(p, t, first, size);
        const Number* u = vectors.u->value.row(0) + first;
        Number* of_head = state.row(s) + first * size;
        for (int64_t i = 0; i < size; i++) {
          Number sum = 0;
          for (int64_t j = 0; j < size; j++)
            sum += row.r[j] * (of_head[i * size + j] + u[j] * row.k[j] * row.v[i]);
          y(t, first + i) = sum;
        }
        step(row, size, of_head);
      }
    }
  }
  return y;
}

template <class Number>
void wkv6_vjp(SequenceBounds bounds, const Matrix<Number>& dy, const Wkv6Inputs<Number>& in,
              Matrix<Number>& dstate, HostProjected6<Number>& d) {
  auto state = in.kept.end();
  const int64_t size = dy.cols / in.vectors.n_head;
  for (int64_t s = sequence_count(bounds) - 1; s >= 0; s--) {
    const int64_t begin = bounds[static_cast<size_t>(s)];
    int64_t end = bounds[static_cast<size_t>(s) + 1];
    while (end > begin) {  // pieces, last to first
      --state;
      const int64_t from = begin + (end - 1 - begin) / kKeptEvery * kKeptEvery;
      for (int64_t first = 0; first < dy.cols; first += size) {
        const Number* kept = state->row(first / size);
        std::vector<HeadRow6<Number>> rows;
        std::vector<std::vector<Number>> before = {{kept, kept + size * size}};
        for (int64_t t = from; t < end; t++) {
          rows.push_back(row_of(in.p, t, first, size));
          before.push_back(before.back());
          step(rows.back(), size, before.back().data());
        }
        for (int64_t t = end - 1; t >= from; t--) {
          const auto i = static_cast<size_t>(t - from);
          const HeadRowBack6<Number> at{rows[i], before[i].data(), dy.row(t) + first, t, first, size};
          step_vjp(at, *in.vectors.u, dstate.row(s) + first * size, d);
        }
      }
      end = from;
    }
  }
}

#define FULMAR_PRIMITIVES6_OF(N)                                                                        \
  template Matrix<N> wkv6(SequenceBounds, const HeadVectors6<N>&, const HostProjected6<N>&, Matrix<N>&, \
                          KeptStates<N>&);                                                              \
  template void wkv6_vjp(SequenceBounds, const Matrix<N>&, const Wkv6Inputs<N>&, Matrix<N>&,            \
                         HostProjected6<N>&)
FULMAR_PRIMITIVES6_OF(float);
FULMAR_PRIMITIVES6_OF(double);
#undef FULMAR_PRIMITIVES6_OF

}  // namespace fulmar
