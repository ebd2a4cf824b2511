// hipBLASLt as its documentation describes it, computing in host memory; knows bf16 alone and has no kernel
// for 13 rows. What is made is counted, so that a test sees what is kept and what is left behind.
#include <cstddef>

#include "fake_gemm.h"

namespace {

constexpr int kSuccess = 0, kInvalidValue = 3, kNotSupported = 7;
constexpr int kAsIs = 111, kTransposed = 112, kFloat = 0, kBFloat = 14, kComputeFloat = 2;
constexpr uint64_t kRowsWithoutKernel = 13;

struct Layout {
  int type;
  uint64_t rows, cols;
  int64_t stride;
};
struct Descriptor {
  int of_a = kAsIs, of_b = kAsIs;
};
struct Algorithm {
  uint8_t data[16];
  size_t most_workspace;
};
struct Choice {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};
constexpr uint8_t kMark = 42;  // of an algorithm that was chosen here

int made = 0, asked = 0;

}  // namespace

extern "C" {

int fake_objects() { return made; }
int fake_choices() { return asked; }

int hipblasLtCreate(void** handle) {
  made++;
  *handle = &made;
  return kSuccess;
}
int hipblasLtDestroy(void*) {
  made--;
  return kSuccess;
}
int hipblasLtGetVersion(void*, int* version) {
  *version = 100000;
  return kSuccess;
}
int hipblasLtMatmulDescCreate(Descriptor** out, int compute, int scale) {
  if (compute != kComputeFloat || scale != kFloat) return kInvalidValue;
  made++;
  *out = new Descriptor;
  return kSuccess;
}
int hipblasLtMatmulDescDestroy(Descriptor* descriptor) {
  made--;
  delete descriptor;
  return kSuccess;
}
int hipblasLtMatmulDescSetAttribute(Descriptor* descriptor, int attribute, const void* value, size_t bytes) {
  if (bytes != sizeof(int) || attribute < 0 || attribute > 1) return kInvalidValue;
  std::memcpy(attribute == 0 ? &descriptor->of_a : &descriptor->of_b, value, bytes);
  return kSuccess;
}
int hipblasLtMatrixLayoutCreate(Layout** out, int type, uint64_t rows, uint64_t cols, int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return kInvalidValue;
  made++;
  *out = new Layout{type, rows, cols, stride};
  return kSuccess;
}
int hipblasLtMatrixLayoutDestroy(Layout* layout) {
  made--;
  delete layout;
  return kSuccess;
}
int hipblasLtMatmulPreferenceCreate(uint64_t** out) {
  made++;
  *out = new uint64_t(0);
  return kSuccess;
}
int hipblasLtMatmulPreferenceDestroy(uint64_t* preference) {
  made--;
  delete preference;
  return kSuccess;
}
int hipblasLtMatmulPreferenceSetAttribute(uint64_t* preference, int attribute, const void* value,
                                          size_t bytes) {
  if (attribute != 1 || bytes != sizeof(uint64_t)) return kInvalidValue;
  std::memcpy(preference, value, bytes);
  return kSuccess;
}

int hipblasLtMatmulAlgoGetHeuristic(void*, const Descriptor* descriptor, const Layout* a, const Layout* b,
                                    const Layout*, const Layout* d, const uint64_t* most, int wanted,
                                    Choice* choices, int* found) {
  asked++;
  *found = 0;
  const bool turned = descriptor->of_a == kTransposed;
  const uint64_t outs = turned ? a->cols : a->rows, inner = turned ? a->rows : a->cols;
  if (wanted != 1 || descriptor->of_b != kAsIs || b->rows != inner || d->rows != outs || d->cols != b->cols)
    return kInvalidValue;
  if (a->type != kBFloat || b->type != kBFloat || d->cols == kRowsWithoutKernel) return kNotSupported;
  choices[0] = {{{kMark}, 0}, *most, kSuccess, 1, {}};
  *found = 1;
  return kSuccess;
}

int hipblasLtMatmul(void*, const Descriptor* descriptor, const void* alpha, const void* a, const Layout* of_a,
                    const void* b, const Layout* of_b, const void* beta, const void*, const Layout*, void* d,
                    const Layout* of_d, const Algorithm* algorithm, void*, size_t, void*) {
  if (algorithm->data[0] != kMark || *static_cast<const float*>(alpha) != 1 ||
      *static_cast<const float*>(beta) != 0)
    return kInvalidValue;
  fulmar::fake::multiply(static_cast<int64_t>(of_d->rows), static_cast<int64_t>(of_d->cols),
                         static_cast<int64_t>(of_b->rows), {a, of_a->stride, descriptor->of_a == kTransposed},
                         {b, of_b->stride, false}, d, of_d->stride, of_d->type == kFloat);
  return kSuccess;
}

}  // extern "C"
