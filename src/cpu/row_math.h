// Inner loops over contiguous f32 vectors, compiled for several instruction sets and chosen at run time.
// Any n >= 0 and any alignment; outputs may be an input where a comment says so.
#pragma once

#include <cstdint>

#include "ops/ops.h"

namespace fulmar::cpu {

// Returns the instruction set in use, e.g. "AVX2".
const char* instruction_set();

// Computes out = (x - mean) / sqrt(variance + eps) * weight + bias; out may be x.
void normalise(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out);
// Adds `addend` to x.
void add_to(float* x, const float* addend, int64_t n);
// Computes out = a * b; out may be a or b.
void multiply_to(const float* a, const float* b, int64_t n, float* out);
// Computes out = z + (other - z) * mix; out may be any input.
void lerp_to(const float* z, const float* other, const float* mix, int64_t n, float* out);
// Computes out = z + (other - z) * (mix + delta); out may be any input.
void lerp_shifted_to(const float* z, const float* other, const float* mix, const float* delta, int64_t n,
                     float* out);
// Computes x = act(x + bias) in place; bias may be null.
void activate_in_place(float* x, const float* bias, int64_t n, Activation act);
// Prepares one head's key (key_prepare7): kk = unit(k * k_k), then k *= 1 + (alpha - 1) * k_a.
void prepare_key(float* k, const float* alpha, const float* k_k, const float* k_a, int64_t n, float* kk);
// Adds one head's bonus (bonus7): y += sum(r * k * r_k) * v.
void add_bonus(const float* r, const float* k, const float* r_k, const float* v, int64_t n, float* y);

}  // namespace fulmar::cpu
