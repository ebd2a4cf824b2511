// Inner loops over contiguous f32 vectors, compiled for several instruction sets and chosen at run time.
// Any n >= 0 and any alignment; outputs may be an input where a comment says so.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace fulmar::cpu {

// The instruction set in use, e.g. "AVX2".
const char* instruction_set();

// out = (x - mean) / sqrt(variance + eps) * weight + bias; out may be x
void normalise(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out);
// x += addend
void add_to(float* x, const float* addend, int64_t n);
// out = a * b; out may be a or b
void multiply_to(const float* a, const float* b, int64_t n, float* out);
// out = z + (other - z) * mix; out may be any input
void lerp_to(const float* z, const float* other, const float* mix, int64_t n, float* out);
// out = z + (other - z) * (mix + delta); out may be any input
void lerp_shifted_to(const float* z, const float* other, const float* mix, const float* delta, int64_t n,
                     float* out);
// x = act(x + bias); bias may be null
void activate_in_place(float* x, const float* bias, int64_t n, Activation act);
// One head of key_prepare7: kk = unit(k * k_k), then k *= 1 + (alpha - 1) * k_a
void prepare_key(float* k, const float* alpha, const float* k_k, const float* k_a, int64_t n, float* kk);
// One head of bonus7: y += sum(r * k * r_k) * v
void add_bonus(const float* r, const float* k, const float* r_k, const float* v, int64_t n, float* y);

}  // namespace fulmar::cpu
