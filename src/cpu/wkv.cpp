// Both recurrences, one task per sequence and head; a head's state is read and written once per call. The
// inner part of this file is compiled once per instruction set.
#include "cpu/wkv.h"

#include "cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/wkv.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h, as it uses its macros.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cstring>
#include <vector>

#ifndef FULMAR_CPU_WKV_TASK
#define FULMAR_CPU_WKV_TASK
namespace fulmar::cpu {

// The rows [first_row, end_row) of one head, and its inputs, output and state.
struct HeadTask {
  int64_t first_row = 0;
  int64_t end_row = 0;
  int64_t column = 0;            // first channel of the head
  int64_t n = 0;                 // channels of the head
  Tensor r, k, v, u, kk, alpha;  // kk and alpha: RWKV-7 only
  const float* bonus = nullptr;  // [n], RWKV-6 only
  Tensor y;
  float* state = nullptr;  // [n, n], row = value channel
  RingStep step;           // the default has no ring: the state is written after the last row
  const RingField* ring = nullptr;
  int64_t slot = 0, head = 0;  // of the ring

  // Returns vector `index` of a row of the ring, counted from the oldest; `removed` follows the inputs.
  float* kept(int64_t row, int64_t index) const {
    return reinterpret_cast<float*>(ring->row(slot, head, step.first + row)) + index * n;
  }
};

}  // namespace fulmar::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kDecayScale = -0.6065306597126334f;  // -exp(-0.5)
constexpr float kExpLimit = 88.0f;                   // e^88 is still finite
constexpr int64_t kRowsTogether = 4;                 // state rows that share the loads of a token's vectors

// Vectors of a row in the ring; RWKV-6 has the first three.
enum RingVector : int64_t { kKey, kValue, kDecay, kKk, kAlpha, kRemoved };

// One thread's working memory: a head's state and a token's key-side vectors, rows padded with zeros to whole
// SIMD vectors, so that inner loops have no tails. The state is updated in place unless its rows need padding
// or it must not change before it is written (`in_place` null).
class Workspace {
 public:
  Workspace(int64_t n, float* in_place) : n_(n) {
    const hn::ScalableTag<float> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    stride_ = (n + lanes - 1) / lanes * lanes;
    const bool copies = in_place == nullptr || stride_ != n;
    memory_.assign(static_cast<size_t>((copies ? n + kVectors : kVectors) * stride_), 0.0f);
    state_ = copies ? r() + kVectors * stride_ : in_place;
  }

  int64_t stride() const { return stride_; }
  float* state() { return state_; }
  float* r() { return memory_.data(); }
  float* w() { return r() + stride_; }
  float* k() { return w() + stride_; }
  float* remove() { return k() + stride_; }        // -kk
  float* replace() { return remove() + stride_; }  // kk * alpha

  void load_state(const float* from) {
    if (from == state_) return;
    for (int64_t i = 0; i < n_; i++) std::copy_n(from + i * n_, n_, state() + i * stride_);
  }
  void store_state(float* to) {
    if (to == state_) return;
    for (int64_t i = 0; i < n_; i++) std::copy_n(state() + i * stride_, n_, to + i * n_);
  }

 private:
  static constexpr int64_t kVectors = 5;

  int64_t n_, stride_;
  std::vector<float> memory_;
  float* state_;
};

// Computes w = exp(-exp(-0.5) * sigmoid(u)) in place over whole vectors.
HWY_INLINE void Decay7(float* w, int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t j = 0; j < stride; j += static_cast<int64_t>(hn::Lanes(d))) {
    const auto e = hn::Exp(d, hn::Min(hn::Neg(hn::LoadU(d, w + j)), hn::Set(d, kExpLimit)));
    const auto power = hn::Div(hn::Set(d, kDecayScale), hn::Add(hn::Set(d, 1.0f), e));
    hn::StoreU(hn::Exp(d, power), d, w + j);
  }
}

// Computes w = exp(-exp(u)) in place over whole vectors.
HWY_INLINE void Decay6(float* w, int64_t stride) {
  const hn::ScalableTag<float> d;
  for (int64_t j = 0; j < stride; j += static_cast<int64_t>(hn::Lanes(d))) {
    const auto e = hn::Exp(d, hn::Min(hn::LoadU(d, w + j), hn::Set(d, kExpLimit)));
    hn::StoreU(hn::Exp(d, hn::Neg(e)), d, w + j);
  }
}

// Returns a part of the state after a token, in the one order that gives the same bits in a replay.
template <class V>
HWY_INLINE V Moved7(V cell, V w, V value, V k, V removed, V replace) {
  return hn::MulAdd(cell, w, hn::MulAdd(removed, replace, hn::Mul(value, k)));
}
template <class V>
HWY_INLINE V Moved6(V cell, V w, V value, V k) {
  return hn::MulAdd(cell, w, hn::Mul(value, k));
}

// Processes one token over kRows rows of the state: S <- S*w + (S.remove)*replace + v*k; y = S.r. `kept`:
// null, or receives S.remove.
template <int64_t kRows>
HWY_INLINE void Rows7(Workspace& space, int64_t row, const float* v, float* y, float* kept) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t stride = space.stride();
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* state = space.state() + row * stride;
  V removed[kRows], value[kRows], out[kRows];
  for (int64_t i = 0; i < kRows; i++) {
    removed[i] = out[i] = hn::Zero(d);
    value[i] = hn::Set(d, v[row + i]);
  }
  for (int64_t j = 0; j < stride; j += lanes) {
    const V remove = hn::LoadU(d, space.remove() + j);
    for (int64_t i = 0; i < kRows; i++) {
      removed[i] = hn::MulAdd(hn::LoadU(d, state + i * stride + j), remove, removed[i]);
    }
  }
  for (int64_t i = 0; i < kRows; i++) {
    removed[i] = hn::SumOfLanes(d, removed[i]);
    if (kept != nullptr) kept[row + i] = hn::GetLane(removed[i]);
  }
  for (int64_t j = 0; j < stride; j += lanes) {
    const V w = hn::LoadU(d, space.w() + j), k = hn::LoadU(d, space.k() + j);
    const V replace = hn::LoadU(d, space.replace() + j), r = hn::LoadU(d, space.r() + j);
    for (int64_t i = 0; i < kRows; i++) {
      const V updated = Moved7(hn::LoadU(d, state + i * stride + j), w, value[i], k, removed[i], replace);
      hn::StoreU(updated, d, state + i * stride + j);
      out[i] = hn::MulAdd(updated, r, out[i]);
    }
  }
  for (int64_t i = 0; i < kRows; i++) y[row + i] = hn::GetLane(hn::SumOfLanes(d, out[i]));
}

// Processes one token over kRows rows of the state: y = S.r + now*v; S <- S*w + v*k.
template <int64_t kRows>
HWY_INLINE void Rows6(Workspace& space, int64_t row, float now, const float* v, float* y) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t stride = space.stride();
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float* state = space.state() + row * stride;
  V value[kRows], out[kRows];
  for (int64_t i = 0; i < kRows; i++) {
    out[i] = hn::Zero(d);
    value[i] = hn::Set(d, v[row + i]);
  }
  for (int64_t j = 0; j < stride; j += lanes) {
    const V w = hn::LoadU(d, space.w() + j), k = hn::LoadU(d, space.k() + j);
    const V r = hn::LoadU(d, space.r() + j);
    for (int64_t i = 0; i < kRows; i++) {
      const V cell = hn::LoadU(d, state + i * stride + j);
      out[i] = hn::MulAdd(cell, r, out[i]);
      hn::StoreU(Moved6(cell, w, value[i], k), d, state + i * stride + j);
    }
  }
  for (int64_t i = 0; i < kRows; i++) {
    y[row + i] = hn::GetLane(hn::SumOfLanes(d, out[i])) + now * v[row + i];
  }
}

// Copies a token's key-side vectors into working memory: k, w, and for RWKV-7 -kk and kk * alpha.
HWY_INLINE void SpreadKeys7(Workspace& space, int64_t n, const float* k, const float* u, const float* kk,
                            const float* alpha) {
  std::copy_n(k, n, space.k());
  std::copy_n(u, n, space.w());
  Decay7(space.w(), space.stride());
  for (int64_t j = 0; j < n; j++) {
    space.remove()[j] = -kk[j];
    space.replace()[j] = kk[j] * alpha[j];
  }
}
HWY_INLINE void SpreadKeys6(Workspace& space, int64_t n, const float* k, const float* u) {
  std::copy_n(k, n, space.k());
  std::copy_n(u, n, space.w());
  Decay6(space.w(), space.stride());
}

// Replays the ring's rows onto the state in working memory; writes it after the row that the step names.
template <class Row>
HWY_INLINE void Replay(const HeadTask& task, Workspace& space, const Row& row) {
  for (int64_t i = 0; i < task.step.held; i++) {
    row(i);
    if (task.step.keeps != 0 && i + 1 == task.step.write_at) space.store_state(task.state);
  }
}

HWY_INLINE void Replay7(const HeadTask& task, Workspace& space) {
  const hn::ScalableTag<float> d;
  Replay(task, space, [&](int64_t i) {
    SpreadKeys7(space, task.n, task.kept(i, kKey), task.kept(i, kDecay), task.kept(i, kKk),
                task.kept(i, kAlpha));
    const float *v = task.kept(i, kValue), *removed = task.kept(i, kRemoved);
    for (int64_t row = 0; row < task.n; row++) {
      float* cells = space.state() + row * space.stride();
      for (int64_t j = 0; j < space.stride(); j += static_cast<int64_t>(hn::Lanes(d))) {
        hn::StoreU(
            Moved7(hn::LoadU(d, cells + j), hn::LoadU(d, space.w() + j), hn::Set(d, v[row]),
                   hn::LoadU(d, space.k() + j), hn::Set(d, removed[row]), hn::LoadU(d, space.replace() + j)),
            d, cells + j);
      }
    }
  });
}

HWY_INLINE void Replay6(const HeadTask& task, Workspace& space) {
  const hn::ScalableTag<float> d;
  Replay(task, space, [&](int64_t i) {
    SpreadKeys6(space, task.n, task.kept(i, kKey), task.kept(i, kDecay));
    const float* v = task.kept(i, kValue);
    for (int64_t row = 0; row < task.n; row++) {
      float* cells = space.state() + row * space.stride();
      for (int64_t j = 0; j < space.stride(); j += static_cast<int64_t>(hn::Lanes(d))) {
        hn::StoreU(Moved6(hn::LoadU(d, cells + j), hn::LoadU(d, space.w() + j), hn::Set(d, v[row]),
                          hn::LoadU(d, space.k() + j)),
                   d, cells + j);
      }
    }
  });
}

void Head7(const HeadTask& task) {
  const int64_t n = task.n;
  Workspace space(n, task.step.keeps == 0 ? task.state : nullptr);
  space.load_state(task.state);
  Replay7(task, space);
  for (int64_t t = task.first_row; t < task.end_row; t++) {
    const auto at = [&](const Tensor& tensor) { return tensor.row<float>(t) + task.column; };
    std::copy_n(at(task.r), n, space.r());
    SpreadKeys7(space, n, at(task.k), at(task.u), at(task.kk), at(task.alpha));
    const float* v = at(task.v);
    float* y = at(task.y);
    float* removed = nullptr;
    if (task.step.keeps != 0) {
      const int64_t kept = task.step.held + t - task.first_row;
      const Tensor inputs[] = {task.k, task.v, task.u, task.kk, task.alpha};
      for (int64_t i = 0; i < kRemoved; i++) std::copy_n(at(inputs[i]), n, task.kept(kept, i));
      removed = task.kept(kept, kRemoved);
    }
    int64_t row = 0;
    for (; row + kRowsTogether <= n; row += kRowsTogether) Rows7<kRowsTogether>(space, row, v, y, removed);
    for (; row < n; row++) Rows7<1>(space, row, v, y, removed);
  }
  if (task.step.keeps == 0) space.store_state(task.state);
}

void Head6(const HeadTask& task) {
  const int64_t n = task.n;
  Workspace space(n, task.step.keeps == 0 ? task.state : nullptr);
  space.load_state(task.state);
  Replay6(task, space);
  for (int64_t t = task.first_row; t < task.end_row; t++) {
    const auto at = [&](const Tensor& tensor) { return tensor.row<float>(t) + task.column; };
    std::copy_n(at(task.r), n, space.r());
    SpreadKeys6(space, n, at(task.k), at(task.u));
    float now = 0;
    for (int64_t j = 0; j < n; j++) now += space.r()[j] * task.bonus[j] * space.k()[j];
    const float* v = at(task.v);
    float* y = at(task.y);
    if (task.step.keeps != 0) {
      const int64_t kept = task.step.held + t - task.first_row;
      const Tensor inputs[] = {task.k, task.v, task.u};
      for (int64_t i = 0; i <= kDecay; i++) std::copy_n(at(inputs[i]), n, task.kept(kept, i));
    }
    int64_t row = 0;
    for (; row + kRowsTogether <= n; row += kRowsTogether) Rows6<kRowsTogether>(space, row, now, v, y);
    for (; row < n; row++) Rows6<1>(space, row, now, v, y);
  }
  if (task.step.keeps == 0) space.store_state(task.state);
}

}  // namespace fulmar::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar::cpu {

HWY_EXPORT(Head7);
HWY_EXPORT(Head6);

namespace {

// Returns a task of heads of `n` channels with what all of a step's heads share.
template <class Projected>
HeadTask task_of(const Projected& p, Tensor y, int64_t n) {
  HeadTask task;
  task.n = n;
  task.r = p.r;
  task.k = p.k;
  task.v = p.v;
  task.u = p.u;
  task.y = y;
  return task;
}

// Runs the task for each head of each sequence.
template <class Run>
void for_heads(ThreadPool& pool, const Batch& batch, int64_t n_head, const HeadTask& shared, StateField wkv,
               Run run) {
  pool.parallel_for(batch.sequences * n_head, 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; index++) {
      const int64_t s = index / n_head, column = index % n_head * shared.n;
      HeadTask task = shared;
      task.first_row = batch.start[s];
      task.end_row = batch.start[s + 1];
      task.column = column;
      task.state = wkv.at<float>(batch.slot[s]) + column * shared.n;
      task.slot = batch.slot[s];
      task.head = index % n_head;
      task.ring = &wkv.ring;
      if (batch.ring != nullptr) task.step = batch.ring[s];
      run(task);
    }
  });
}

}  // namespace

void wkv7(ThreadPool& pool, const Batch& batch, const TimeMix7& att, const Projected7& p, StateField wkv,
          Tensor y) {
  for_heads(pool, batch, att.n_head, task_of(p, y, att.head_size), wkv, [&](HeadTask& task) {
    task.kk = p.kk;
    task.alpha = p.alpha;
    HWY_DYNAMIC_DISPATCH(Head7)(task);
  });
}

void wkv6(ThreadPool& pool, const Batch& batch, const TimeMix6& att, const Projected6& p, StateField wkv,
          Tensor y) {
  for_heads(pool, batch, att.n_head, task_of(p, y, att.head_size), wkv, [&](HeadTask& task) {
    task.bonus = att.u.as<float>() + task.column;
    HWY_DYNAMIC_DISPATCH(Head6)(task);
  });
}

void replay(ThreadPool& pool, const State& state, int64_t layer, int64_t slot, float* wkv) {
  const StateField field = state.field(layer, state.layout.fields.replayed());
  const RingCursor& cursor = state.cursors[slot];
  const int64_t n = state.layout.head_size;
  pool.parallel_for(state.layout.n_head, 1, [&](int64_t begin, int64_t end) {
    for (int64_t head = begin; head < end; head++) {
      HeadTask task;
      task.n = n;
      task.state = wkv + head * n * n;
      task.slot = slot;
      task.head = head;
      task.ring = &field.ring;
      task.step = {static_cast<uint8_t>(cursor.first), static_cast<uint8_t>(cursor.held), 0, 0};
      if (state.ring.removed) {
        HWY_DYNAMIC_DISPATCH(Head7)(task);
      } else {
        HWY_DYNAMIC_DISPATCH(Head6)(task);
      }
    }
  });
}

}  // namespace fulmar::cpu
#endif  // HWY_ONCE
