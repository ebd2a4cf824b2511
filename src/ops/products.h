// Products of matrices in plain loops whose sums run in a fixed order.
#pragma once

#include "ops/matrix.h"

namespace fulmar {

// Adds scale * a @ b^T to y; a [n, k], b [m, k], y [n, m].
template <class Number>
void add_product_transposed(const Matrix<Number>& a, const Matrix<Number>& b, Number scale,
                            Matrix<Number>& y);
// Adds scale * a @ b to y; a [n, k], b [k, m], y [n, m].
template <class Number>
void add_product(const Matrix<Number>& a, const Matrix<Number>& b, Number scale, Matrix<Number>& y);
// Adds scale * a^T @ b to y; a [n, k], b [n, m], y [k, m].
template <class Number>
void add_transposed_product(const Matrix<Number>& a, const Matrix<Number>& b, Number scale,
                            Matrix<Number>& y);

}  // namespace fulmar
