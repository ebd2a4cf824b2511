// What happens within heads, token by token, against plain double-precision loops.
#include <gtest/gtest.h>

#include <cmath>

#include "rwkv6/islands.h"
#include "rwkv7/islands.h"
#include "support/case_shapes.h"
#include "support/ops_rig.h"

namespace fulmar::support {

namespace {

void add_keys_and_bonus(Cases& cases) {
  for (const HeadShape shape : kHeadShapes) {
    cases.push_back({"key_prepare7_" + text(shape), [=](Ops& ops) {
                       OpsRig rig(ops);
                       const int64_t c = shape.width(), n = shape.head_size;
                       const Made k = rig.tensor(5, c), alpha = rig.tensor(5, c, 0, 1);
                       const Made k_k = rig.vector(1, c), k_a = rig.vector(1, c);
                       TimeMix7 att;
                       att.n_head = shape.n_head;
                       att.head_size = n;
                       att.k_k = k_k.tensor;
                       att.k_a = k_a.tensor;
                       Doubles want_kk(k.values.size()), want_k(k.values.size());
                       for (size_t i = 0; i < want_kk.size(); i++) {
                         const size_t col = i % static_cast<size_t>(c);
                         want_kk[i] = k.values[i] * k_k.values[col];
                         want_k[i] = k.values[i] * (1 + (alpha.values[i] - 1) * k_a.values[col]);
                       }
                       for (size_t at = 0; at < want_kk.size(); at += static_cast<size_t>(n)) {
                         double squares = 0;
                         for (size_t i = at; i < at + static_cast<size_t>(n); i++)
                           squares += want_kk[i] * want_kk[i];
                         for (size_t i = at; i < at + static_cast<size_t>(n); i++)
                           want_kk[i] /= std::sqrt(squares);
                       }
                       const Tensor kk = rig.empty(5, c);
                       ops.rwkv7().key_prepare(att, k.tensor, alpha.tensor, kk);
                       expect_close(rig.read(kk), want_kk, ops.activation_dtype(), "kk");
                       expect_close(rig.read(k.tensor), want_k, ops.activation_dtype(), "k");

                       const Made zero = rig.tensor(5, c, 0, 1e-30);
                       ops.rwkv7().key_prepare(att, zero.tensor, alpha.tensor, kk);
                       for (const double value : rig.read(kk))
                         ASSERT_LT(std::abs(value), 1e-3) << "kk of a zero key";
                     }});
    cases.push_back({"bonus7_" + text(shape), [=](Ops& ops) {
                       OpsRig rig(ops);
                       const int64_t c = shape.width();
                       const auto n = static_cast<size_t>(shape.head_size);
                       const Made r = rig.tensor(5, c), k = rig.tensor(5, c), v = rig.tensor(5, c),
                                  y = rig.tensor(5, c);
                       const Made r_k = rig.vector(1, c);
                       TimeMix7 att;
                       att.n_head = shape.n_head;
                       att.head_size = shape.head_size;
                       att.r_k = r_k.tensor;
                       Doubles want = y.values;
                       for (size_t at = 0; at < want.size(); at += n) {
                         double agreement = 0;
                         for (size_t i = at; i < at + n; i++) {
                           agreement += r.values[i] * k.values[i] * r_k.values[i % static_cast<size_t>(c)];
                         }
                         for (size_t i = at; i < at + n; i++) want[i] += agreement * v.values[i];
                       }
                       Projected7 p;
                       p.r = r.tensor;
                       p.k = k.tensor;
                       p.v = v.tensor;
                       ops.rwkv7().bonus(att, p, y.tensor);
                       expect_close(rig.read(y.tensor), want, ops.activation_dtype(), "bonus7");
                     }});
  }
}

// Both recurrences in plain loops; wkv [C, N] is updated. For RWKV-7 kk and alpha, for RWKV-6 u is not empty.
struct Recurrence {
  const HeadShape shape;
  const Made &r, &k, &v, &decay;
  const Doubles* kk = nullptr;
  const Doubles* alpha = nullptr;
  const Doubles* u = nullptr;

  void step(size_t t, Doubles& wkv, Doubles& y) const {
    const auto n = static_cast<size_t>(shape.head_size), c = static_cast<size_t>(shape.width());
    const size_t row = t * c;
    for (size_t i = 0; i < c; i++) {
      const size_t head = i / n * n;
      double* cells = &wkv[i * n];
      double removed = 0, out = 0;
      for (size_t j = 0; kk != nullptr && j < n; j++) removed -= cells[j] * (*kk)[row + head + j];
      for (size_t j = 0; j < n; j++) {
        const size_t at = row + head + j;
        const double added = v.values[row + i] * k.values[at];
        if (kk != nullptr) {
          const double w = std::exp(-std::exp(-0.5) * sigmoid(decay.values[at]));
          cells[j] = cells[j] * w + removed * (*kk)[at] * (*alpha)[at] + added;
          out += cells[j] * r.values[at];
        } else {
          out += (cells[j] + (*u)[head + j] * added) * r.values[at];
          cells[j] = cells[j] * std::exp(-std::exp(decay.values[at])) + added;
        }
      }
      y.push_back(out);
    }
  }
};

void run_wkv(Ops& ops, int version, HeadShape shape, const std::vector<int32_t>& lengths) {
  OpsRig rig(ops);
  const int64_t c = shape.width(), n = shape.head_size;
  const Batch batch = rig.begin(lengths, shape.n_head, n);
  const Made r = rig.tensor(batch.rows, c), k = rig.tensor(batch.rows, c, -0.3, 0.3),
             v = rig.tensor(batch.rows, c);
  const Made decay = rig.tensor(batch.rows, c, -6, 3);
  const double bound = 1 / std::sqrt(static_cast<double>(n));
  const Made kk = rig.tensor(batch.rows, c, -bound, bound), alpha = rig.tensor(batch.rows, c, 0, 1);
  const Made u = rig.vector(1, c);
  Recurrence recurrence{shape, r, k, v, decay};
  if (version == 7) {
    recurrence.kk = &kk.values;
    recurrence.alpha = &alpha.values;
  } else {
    recurrence.u = &u.values;
  }
  const StateField wkv = rig.state().wkv(0);
  Doubles want_y, want_state;
  for (size_t s = 0; s < lengths.size(); s++) {
    Doubles state = rig.read(wkv, rig.slots()[s], c * n);
    for (int32_t t = rig.starts()[s]; t < rig.starts()[s + 1]; t++) {
      recurrence.step(static_cast<size_t>(t), state, want_y);
    }
    want_state.insert(want_state.end(), state.begin(), state.end());
  }
  const Doubles untouched = rig.read(wkv, 1, c * n);
  const Tensor y = rig.empty(batch.rows, c);
  if (version == 7) {
    TimeMix7 att;
    att.n_head = shape.n_head;
    att.head_size = n;
    ops.rwkv7().wkv(batch, att, {r.tensor, k.tensor, v.tensor, {}, decay.tensor, kk.tensor, alpha.tensor},
                    wkv, y);
  } else {
    TimeMix6 att;
    att.n_head = shape.n_head;
    att.head_size = n;
    att.u = u.tensor;
    ops.rwkv6().wkv(batch, att, {r.tensor, k.tensor, v.tensor, {}, decay.tensor}, wkv, y);
  }
  Doubles got_y = rig.read(y), got_state;
  got_y.resize(want_y.size());
  for (const int32_t slot : rig.slots()) {
    const Doubles one = rig.read(wkv, slot, c * n);
    got_state.insert(got_state.end(), one.begin(), one.end());
  }
  EXPECT_EQ(rig.read(wkv, 1, c * n), untouched) << "a slot outside the batch";
  expect_close(got_y, want_y, ops.activation_dtype(), "y");
  expect_close(got_state, want_state, DType::f32, "state");
}

void add_wkv(Cases& cases) {
  for (const int version : {7, 6}) {
    for (const HeadShape shape : kHeadShapes) {
      for (const auto& lengths : kLengths) {
        if (sum(lengths) > 100 && shape.width() > 64) continue;
        const std::string name =
            "wkv" + std::to_string(version) + "_" + text(shape) + "_rows_" + text(lengths);
        cases.push_back({name, [=](Ops& ops) { run_wkv(ops, version, shape, lengths); }});
      }
    }
  }
}

}  // namespace

void add_recurrences(Cases& cases) {
  add_keys_and_bonus(cases);
  add_wkv(cases);
}

}  // namespace fulmar::support
