// Inner loops over f32 vectors. This file is compiled once per instruction set.
#include "cpu/row_math.h"

#include "cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/row_math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h, as it uses its macros.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace fulmar::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr float kKeyNormFloor = 1e-12f;
constexpr float kExpLimit = 88.0f;  // e^88 is still finite

// Calls body(tag, i) with full vectors, then with single lanes for the rest.
template <class Body>
HWY_INLINE void ForLanes(int64_t n, const Body& body) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(d, i);
  for (; i < n; i++) body(single, i);
}

// Returns the sum over i of term(tag, i).
template <class Term>
HWY_INLINE float SumLanes(int64_t n, const Term& term) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d), odd = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Add(even, term(d, i));
    odd = hn::Add(odd, term(d, i + lanes));
  }
  for (; i + lanes <= n; i += lanes) even = hn::Add(even, term(d, i));
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; i++) total += hn::GetLane(term(single, i));
  return total;
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, kExpLimit)));
  return hn::Div(one, hn::Add(one, e));
}

void Normalise(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out) {
  const float mean =
      SumLanes(n, [=](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) / static_cast<float>(n);
  const float squares = SumLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(centred, centred);
  });
  const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    const auto unit = hn::Mul(centred, hn::Set(d, scale));
    hn::StoreU(hn::MulAdd(unit, hn::LoadU(d, weight + i), hn::LoadU(d, bias + i)), d, out + i);
  });
}

void AddTo(float* x, const float* addend, int64_t n) {
  ForLanes(n, [=](auto d, int64_t i)
                  HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, addend + i)), d, x + i); });
}

void MultiplyTo(const float* a, const float* b, int64_t n, float* out) {
  ForLanes(n, [=](auto d, int64_t i)
                  HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i); });
}

void LerpTo(const float* z, const float* other, const float* mix, int64_t n, float* out) {
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto from = hn::LoadU(d, z + i);
    const auto way = hn::Sub(hn::LoadU(d, other + i), from);
    hn::StoreU(hn::MulAdd(way, hn::LoadU(d, mix + i), from), d, out + i);
  });
}

void LerpShiftedTo(const float* z, const float* other, const float* mix, const float* delta, int64_t n,
                   float* out) {
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto from = hn::LoadU(d, z + i);
    const auto way = hn::Sub(hn::LoadU(d, other + i), from);
    const auto share = hn::Add(hn::LoadU(d, mix + i), hn::LoadU(d, delta + i));
    hn::StoreU(hn::MulAdd(way, share, from), d, out + i);
  });
}

template <class Function>
HWY_INLINE void ApplyTo(float* x, const float* bias, int64_t n, const Function& function) {
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    auto value = hn::LoadU(d, x + i);
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    hn::StoreU(function(d, value), d, x + i);
  });
}

void ActivateInPlace(float* x, const float* bias, int64_t n, Activation act) {
  switch (act) {
    case Activation::tanh:
      return ApplyTo(x, bias, n, [](auto d, auto v) HWY_ATTR { return hn::Tanh(d, v); });
    case Activation::sigmoid:
      return ApplyTo(x, bias, n, [](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
    case Activation::silu:
      return ApplyTo(x, bias, n, [](auto d, auto v) HWY_ATTR { return hn::Mul(v, Sigmoid(d, v)); });
    case Activation::relu_squared:
      return ApplyTo(x, bias, n, [](auto d, auto v) HWY_ATTR {
        const auto positive = hn::Max(v, hn::Zero(d));
        return hn::Mul(positive, positive);
      });
  }
}

void PrepareKey(float* k, const float* alpha, const float* k_k, const float* k_a, int64_t n, float* kk) {
  const float squares = SumLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, k + i), hn::LoadU(d, k_k + i));
    hn::StoreU(scaled, d, kk + i);
    return hn::Mul(scaled, scaled);
  });
  const float scale = 1.0f / std::max(std::sqrt(squares), kKeyNormFloor);
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, kk + i), hn::Set(d, scale)), d, kk + i);
    const auto one = hn::Set(d, 1.0f);
    const auto rate = hn::Sub(hn::LoadU(d, alpha + i), one);
    const auto factor = hn::MulAdd(rate, hn::LoadU(d, k_a + i), one);
    hn::StoreU(hn::Mul(hn::LoadU(d, k + i), factor), d, k + i);
  });
}

void AddBonus(const float* r, const float* k, const float* r_k, const float* v, int64_t n, float* y) {
  const float agreement = SumLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(hn::LoadU(d, r + i), hn::LoadU(d, k + i)), hn::LoadU(d, r_k + i));
  });
  ForLanes(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, agreement), hn::LoadU(d, v + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

const char* InstructionSet() { return hwy::TargetName(HWY_TARGET); }

}  // namespace fulmar::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fulmar::cpu {

HWY_EXPORT(Normalise);
HWY_EXPORT(AddTo);
HWY_EXPORT(MultiplyTo);
HWY_EXPORT(LerpTo);
HWY_EXPORT(LerpShiftedTo);
HWY_EXPORT(ActivateInPlace);
HWY_EXPORT(PrepareKey);
HWY_EXPORT(AddBonus);
HWY_EXPORT(InstructionSet);

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(InstructionSet)(); }

void normalise(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(Normalise)(x, weight, bias, n, eps, out);
}
void add_to(float* x, const float* addend, int64_t n) { HWY_DYNAMIC_DISPATCH(AddTo)(x, addend, n); }
void multiply_to(const float* a, const float* b, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(MultiplyTo)(a, b, n, out);
}
void lerp_to(const float* z, const float* other, const float* mix, int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(LerpTo)(z, other, mix, n, out);
}
void lerp_shifted_to(const float* z, const float* other, const float* mix, const float* delta, int64_t n,
                     float* out) {
  HWY_DYNAMIC_DISPATCH(LerpShiftedTo)(z, other, mix, delta, n, out);
}
void activate_in_place(float* x, const float* bias, int64_t n, Activation act) {
  HWY_DYNAMIC_DISPATCH(ActivateInPlace)(x, bias, n, act);
}
void prepare_key(float* k, const float* alpha, const float* k_k, const float* k_a, int64_t n, float* kk) {
  HWY_DYNAMIC_DISPATCH(PrepareKey)(k, alpha, k_k, k_a, n, kk);
}
void add_bonus(const float* r, const float* k, const float* r_k, const float* v, int64_t n, float* y) {
  HWY_DYNAMIC_DISPATCH(AddBonus)(r, k, r_k, v, n, y);
}

}  // namespace fulmar::cpu
#endif  // HWY_ONCE
