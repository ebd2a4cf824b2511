#include "rwkv7/vjp.h"

#include <algorithm>
#include <cmath>

namespace fulmar {
namespace {

constexpr double kDecayScale = -0.60653065971263342;  // -exp(-0.5)
constexpr double kLeastNorm = 1e-12;

// Returns the norm of a head of key * k_k, which is at least kLeastNorm.
template <class Number>
Number head_length(const Number* key, const Number* k_k, int64_t count) {
  Number squares = 0;
  for (int64_t j = 0; j < count; j++) squares += key[j] * k_k[j] * key[j] * k_k[j];
  return std::max(std::sqrt(squares), static_cast<Number>(kLeastNorm));
}

// What a row gives to the recurrence of one head, N numbers each.
template <class Number>
struct HeadRow7 {
  const Number *r, *k, *v, *kk, *alpha;
  std::vector<Number> sigma, w;  // sigmoid of the decay, and the decay itself
};

template <class Number>
HeadRow7<Number> row_of(const HostProjected7<Number>& p, int64_t t, int64_t first, int64_t size) {
  HeadRow7<Number> row{p.r.row(t) + first, p.k.row(t) + first, p.v.row(t) + first, p.kk.row(t) + first,
                       p.alpha.row(t) + first};
  for (int64_t j = first; j < first + size; j++) {
    row.sigma.push_back(1 / (1 + std::exp(-p.u(t, j))));
    row.w.push_back(std::exp(static_cast<Number>(kDecayScale) * row.sigma.back()));
  }
  return row;
}

// Computes u = S (-kk), then S = S diag(w) + u (kk * alpha)^T + v k^T; S [value][key].
template <class Number>
void step(const HeadRow7<Number>& row, int64_t size, Number* s, Number* u) {
  for (int64_t i = 0; i < size; i++) {
    Number* line = s + i * size;
    u[i] = 0;
    for (int64_t j = 0; j < size; j++) u[i] -= line[j] * row.kk[j];
    for (int64_t j = 0; j < size; j++) {
      line[j] =
          line[j] * row.w[static_cast<size_t>(j)] + u[i] * row.kk[j] * row.alpha[j] + row.v[i] * row.k[j];
    }
  }
}

// The states of a head around each row of a piece, and u of each.
template <class Number>
struct HeadPiece7 {
  std::vector<std::vector<Number>> states, us;
};

template <class Number>
HeadPiece7<Number> run_piece(const std::vector<HeadRow7<Number>>& rows, const Number* from, int64_t size) {
  HeadPiece7<Number> piece;
  piece.states.emplace_back(from, from + size * size);
  for (const HeadRow7<Number>& row : rows) {
    piece.states.push_back(piece.states.back());
    piece.us.emplace_back(static_cast<size_t>(size));
    step(row, size, piece.states.back().data(), piece.us.back().data());
  }
  return piece;
}

// One row of one head on the way back.
template <class Number>
struct HeadRowBack7 {
  const HeadRow7<Number>& row;
  const Number *before, *after, *u, *dy;  // S on both sides of the row, and the gradient of its y
  int64_t t, first, size;
};

// Adds the row's gradients to `d`, and takes G, the gradient of the state [value][key], from behind the row
// to before it.
template <class Number>
void step_vjp(const HeadRowBack7<Number>& at, Number* g, HostProjected7<Number>& d) {
  const HeadRow7<Number>& row = at.row;
  const int64_t size = at.size;
  const auto line_of = [&](Matrix<Number>& m) { return m.row(at.t) + at.first; };
  Number *dr = line_of(d.r), *dk = line_of(d.k), *dv = line_of(d.v), *du = line_of(d.u), *dkk = line_of(d.kk),
         *dalpha = line_of(d.alpha);
  const auto count = static_cast<size_t>(size);
  std::vector<Number> dw(count), db(count), da(count);
  for (int64_t i = 0; i < size; i++) {
    const Number *before = at.before + i * size, *after = at.after + i * size;
    Number* gi = g + i * size;
    Number du_i = 0;  // gradient of u[i], the state's product with -kk
    for (int64_t j = 0; j < size; j++) {
      const auto to = static_cast<size_t>(j);
      dr[j] += after[j] * at.dy[i];
      gi[j] += at.dy[i] * row.r[j];
      dw[to] += gi[j] * before[j];
      dv[i] += gi[j] * row.k[j];
      dk[j] += gi[j] * row.v[i];
      db[to] += gi[j] * at.u[i];
      du_i += gi[j] * row.kk[j] * row.alpha[j];
    }
    for (int64_t j = 0; j < size; j++) {
      const auto to = static_cast<size_t>(j);
      da[to] += before[j] * du_i;
      gi[j] = gi[j] * row.w[to] - du_i * row.kk[j];
    }
  }
  for (int64_t j = 0; j < size; j++) {
    const auto from = static_cast<size_t>(j);
    const Number s = row.sigma[from];
    du[j] += dw[from] * row.w[from] * static_cast<Number>(kDecayScale) * s * (1 - s);
    dkk[j] += db[from] * row.alpha[j] - da[from];
    dalpha[j] += db[from] * row.kk[j];
  }
}

}  // namespace

template <class Number>
void prepare_key7(const HeadVectors7<Number>& vectors, const Matrix<Number>& key, HostProjected7<Number>& p) {
  const int64_t size = key.cols / vectors.n_head;
  p.k = key, p.kk = key;
  for (int64_t t = 0; t < key.rows; t++) {
    for (int64_t first = 0; first < key.cols; first += size) {
      const Number length = head_length(key.row(t) + first, vectors.k_k->value.row(0) + first, size);
      for (int64_t j = first; j < first + size; j++) {
        p.kk(t, j) = key(t, j) * vectors.k_k->value(0, j) / length;
        p.k(t, j) = key(t, j) * (1 + (p.alpha(t, j) - 1) * vectors.k_a->value(0, j));
      }
    }
  }
}

template <class Number>
Matrix<Number> prepare_key7_vjp(const HeadVectors7<Number>& vectors, const Matrix<Number>& key,
                                const HostProjected7<Number>& p, HostProjected7<Number>& d) {
  const int64_t size = key.cols / vectors.n_head;
  Parameter<Number>&k_k = *vectors.k_k, &k_a = *vectors.k_a;
  Matrix<Number> dkey(key.rows, key.cols);
  for (int64_t t = 0; t < key.rows; t++) {
    for (int64_t first = 0; first < key.cols; first += size) {
      const Number length = head_length(key.row(t) + first, k_k.value.row(0) + first, size);
      Number along = 0;  // at the lower bound the length is constant: nothing is projected away
      if (length > static_cast<Number>(kLeastNorm)) {
        for (int64_t j = first; j < first + size; j++) along += d.kk(t, j) * p.kk(t, j);
      }
      for (int64_t j = first; j < first + size; j++) {
        const Number dq = (d.kk(t, j) - p.kk(t, j) * along) / length, ka = k_a.value(0, j);
        dkey(t, j) = d.k(t, j) * (1 + (p.alpha(t, j) - 1) * ka) + dq * k_k.value(0, j);
        d.alpha(t, j) += d.k(t, j) * key(t, j) * ka;
        if (k_k.trained()) k_k.gradient(0, j) += dq * key(t, j);
        if (k_a.trained()) k_a.gradient(0, j) += d.k(t, j) * key(t, j) * (p.alpha(t, j) - 1);
      }
    }
  }
  return dkey;
}

template <class Number>
Matrix<Number> wkv7(SequenceBounds bounds, int64_t n_head, const HostProjected7<Number>& p,
                    Matrix<Number>& state, KeptStates<Number>& kept) {
  Matrix<Number> y(p.r.rows, p.r.cols);
  const int64_t size = y.cols / n_head;
  std::vector<Number> u(static_cast<size_t>(size));
  kept.clear();
  for (int64_t s = 0; s < sequence_count(bounds); s++) {
    const int64_t begin = bounds[static_cast<size_t>(s)], end = bounds[static_cast<size_t>(s) + 1];
    for (int64_t t = begin; t < end; t++) {
      if ((t - begin) % kKeptEvery == 0) {
        kept.emplace_back(n_head, size * size);
        std::copy_n(state.row(s), state.cols, kept.back().row(0));
      }
      for (int64_t h = 0; h < n_head; h++) {
        const HeadRow7<Number> row = row_of(p, t, h * size, size);
        Number* of_head = state.row(s) + h * size * size;
        step(row, size, of_head, u.data());
        for (int64_t i = 0; i < size; i++) {
          Number sum = 0;
          for (int64_t j = 0; j < size; j++) sum += of_head[i * size + j] * row.r[j];
          y(t, h * size + i) = sum;
        }
      }
    }
  }
  return y;
}

template <class Number>
void wkv7_vjp(SequenceBounds bounds, const Matrix<Number>& dy, const HostProjected7<Number>& p,
              const KeptStates<Number>& kept, Matrix<Number>& dstate, HostProjected7<Number>& d) {
  auto state = kept.end();
  for (int64_t s = sequence_count(bounds) - 1; s >= 0; s--) {
    const int64_t begin = bounds[static_cast<size_t>(s)];
    int64_t end = bounds[static_cast<size_t>(s) + 1];
    while (end > begin) {  // pieces, last to first
      --state;
      const int64_t n_head = state->rows, size = dy.cols / n_head;
      const int64_t from = begin + (end - 1 - begin) / kKeptEvery * kKeptEvery;
      for (int64_t h = 0; h < n_head; h++) {
        std::vector<HeadRow7<Number>> rows;
        for (int64_t t = from; t < end; t++) rows.push_back(row_of(p, t, h * size, size));
        const HeadPiece7<Number> piece = run_piece(rows, state->row(h), size);
        Number* g = dstate.row(s) + h * size * size;
        for (int64_t t = end - 1; t >= from; t--) {
          const auto i = static_cast<size_t>(t - from);
          const HeadRowBack7<Number> at{rows[i],
                                        piece.states[i].data(),
                                        piece.states[i + 1].data(),
                                        piece.us[i].data(),
                                        dy.row(t) + h * size,
                                        t,
                                        h * size,
                                        size};
          step_vjp(at, g, d);
        }
      }
      end = from;
    }
  }
}

template <class Number>
void add_bonus7(const HeadVectors7<Number>& vectors, const HostProjected7<Number>& p, Matrix<Number>& y) {
  const int64_t size = y.cols / vectors.n_head;
  const Number* r_k = vectors.r_k->value.row(0);
  for (int64_t t = 0; t < y.rows; t++) {
    for (int64_t first = 0; first < y.cols; first += size) {
      Number sum = 0;
      for (int64_t j = first; j < first + size; j++) sum += p.r(t, j) * p.k(t, j) * r_k[j];
      for (int64_t j = first; j < first + size; j++) y(t, j) += sum * p.v(t, j);
    }
  }
}

template <class Number>
void add_bonus7_vjp(const HeadVectors7<Number>& vectors, const Matrix<Number>& dy,
                    const HostProjected7<Number>& p, HostProjected7<Number>& d) {
  const int64_t size = dy.cols / vectors.n_head;
  Parameter<Number>& r_k = *vectors.r_k;
  for (int64_t t = 0; t < dy.rows; t++) {
    for (int64_t first = 0; first < dy.cols; first += size) {
      Number sum = 0, dsum = 0;
      for (int64_t j = first; j < first + size; j++) {
        sum += p.r(t, j) * p.k(t, j) * r_k.value(0, j);
        dsum += dy(t, j) * p.v(t, j);
      }
      for (int64_t j = first; j < first + size; j++) {
        d.v(t, j) += dy(t, j) * sum;
        d.r(t, j) += dsum * p.k(t, j) * r_k.value(0, j);
        d.k(t, j) += dsum * p.r(t, j) * r_k.value(0, j);
        if (r_k.trained()) r_k.gradient(0, j) += dsum * p.r(t, j) * p.k(t, j);
      }
    }
  }
}

#define FULMAR_PRIMITIVES7_OF(N)                                                                           \
  template void prepare_key7(const HeadVectors7<N>&, const Matrix<N>&, HostProjected7<N>&);                \
  template Matrix<N> prepare_key7_vjp(const HeadVectors7<N>&, const Matrix<N>&, const HostProjected7<N>&,  \
                                      HostProjected7<N>&);                                                 \
  template Matrix<N> wkv7(SequenceBounds, int64_t, const HostProjected7<N>&, Matrix<N>&, KeptStates<N>&);  \
  template void wkv7_vjp(SequenceBounds, const Matrix<N>&, const HostProjected7<N>&, const KeptStates<N>&, \
                         Matrix<N>&, HostProjected7<N>&);                                                  \
  template void add_bonus7(const HeadVectors7<N>&, const HostProjected7<N>&, Matrix<N>&);                  \
  template void add_bonus7_vjp(const HeadVectors7<N>&, const Matrix<N>&, const HostProjected7<N>&,         \
                               HostProjected7<N>&)
FULMAR_PRIMITIVES7_OF(float);
FULMAR_PRIMITIVES7_OF(double);
#undef FULMAR_PRIMITIVES7_OF

}  // namespace fulmar
