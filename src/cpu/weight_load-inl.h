// Loads stored weights as f32 vectors, whatever their type and alignment. Per-target code: included once for
// every instruction set by files that use hwy/foreach_target.h.
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#if defined(FULMAR_CPU_WEIGHT_LOAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FULMAR_CPU_WEIGHT_LOAD_INL_H_
#undef FULMAR_CPU_WEIGHT_LOAD_INL_H_
#else
#define FULMAR_CPU_WEIGHT_LOAD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace fulmar::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32>;

// Loads as many stored elements as one f32 vector has lanes.
template <class E>
HWY_INLINE hn::Vec<hn::Rebind<E, F32>> load_stored(const E* from) {
  const hn::Rebind<E, F32> d;
#if HWY_TARGET == HWY_SCALAR
  E value;  // the scalar target would read through a misaligned pointer
  std::memcpy(&value, static_cast<const void*>(from), sizeof(E));
  return hn::LoadU(d, &value);
#else
  return hn::LoadU(d, from);
#endif
}

HWY_INLINE F32Vec load_weights(const float* from) { return load_stored(from); }
HWY_INLINE F32Vec load_weights(const hwy::float16_t* from) { return hn::PromoteTo(F32(), load_stored(from)); }
HWY_INLINE F32Vec load_weights(const hwy::bfloat16_t* from) {
  return hn::PromoteTo(F32(), load_stored(from));
}

#if HWY_TARGET != HWY_SCALAR
// An FP8 E4M3 number as a type of its own, without its scale.
struct F8 {
  uint8_t code;
};

// Converts FP8 by way of f16 with the exponent's bias off by 8, so that subnormals come out right and fast.
template <class D>
HWY_INLINE hn::Vec<D> promote_f8(D d, hn::Vec<hn::Rebind<uint8_t, D>> codes) {
  const hn::Rebind<uint16_t, D> d16;
  const auto size_bits = hn::Set(d16, uint16_t{0x7f}), sign_bit = hn::Set(d16, uint16_t{0x80});
  const auto code = hn::PromoteTo(d16, codes);
  const auto size = hn::And(code, size_bits);
  // All ones is NaN: f16's largest exponent makes it one.
  const auto nan = hn::IfThenElseZero(hn::Eq(size, size_bits), hn::Set(d16, uint16_t{0x7c01}));
  const auto bits16 = hn::Or(hn::Or(hn::ShiftLeft<7>(size), nan), hn::ShiftLeft<8>(hn::And(code, sign_bit)));
  const auto value = hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits16));
  return hn::Mul(value, hn::Set(d, 256.0f));
}

HWY_INLINE F32Vec load_weights(const F8* from) {
  const hn::Rebind<uint8_t, F32> d;
  return promote_f8(F32(), hn::LoadU(d, &from->code));
}
#endif

// Loads the first `count` < lanes elements, the rest zero. Never reads past them: a mapping may end there.
template <class E>
HWY_INLINE F32Vec load_weights_tail(const E* from, size_t count) {
  HWY_ALIGN E padded[hn::MaxLanes(F32())] = {};
  std::memcpy(static_cast<void*>(padded), static_cast<const void*>(from), count * sizeof(E));
  return load_weights(padded);
}

}  // namespace fulmar::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
