#include "ops/products.h"

namespace fulmar {
namespace {

// Adds factor * from to `to`, `count` numbers each.
template <class Number>
void add_scaled(const Number* from, Number factor, Number* to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] += factor * from[i];
}

// Returns the dot product, in eight sums that vector registers hold.
template <class Number>
Number dot(const Number* a, const Number* b, int64_t count) {
  constexpr int64_t kLanes = 8;
  Number sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; lane++) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < count; i++, lane++) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

}  // namespace

template <class Number>
void add_product_transposed(const Matrix<Number>& a, const Matrix<Number>& b, Number scale,
                            Matrix<Number>& y) {
  for (int64_t j = 0; j < b.rows; j++) {  // a row of the larger matrix is read once
    for (int64_t i = 0; i < a.rows; i++) y(i, j) += scale * dot(a.row(i), b.row(j), a.cols);
  }
}

template <class Number>
void add_product(const Matrix<Number>& a, const Matrix<Number>& b, Number scale, Matrix<Number>& y) {
  for (int64_t k = 0; k < a.cols; k++) {
    for (int64_t i = 0; i < a.rows; i++) {
      const Number factor = scale * a(i, k);
      if (factor != 0) add_scaled(b.row(k), factor, y.row(i), b.cols);
    }
  }
}

template <class Number>
void add_transposed_product(const Matrix<Number>& a, const Matrix<Number>& b, Number scale,
                            Matrix<Number>& y) {
  for (int64_t k = 0; k < a.cols; k++) {
    for (int64_t i = 0; i < a.rows; i++) {
      const Number factor = scale * a(i, k);
      if (factor != 0) add_scaled(b.row(i), factor, y.row(k), b.cols);
    }
  }
}

#define FULMAR_PRODUCTS_OF(Number)                                                                  \
  template void add_product_transposed(const Matrix<Number>&, const Matrix<Number>&, Number,        \
                                       Matrix<Number>&);                                            \
  template void add_product(const Matrix<Number>&, const Matrix<Number>&, Number, Matrix<Number>&); \
  template void add_transposed_product(const Matrix<Number>&, const Matrix<Number>&, Number, Matrix<Number>&)
FULMAR_PRODUCTS_OF(float);
FULMAR_PRODUCTS_OF(double);
#undef FULMAR_PRODUCTS_OF

}  // namespace fulmar
