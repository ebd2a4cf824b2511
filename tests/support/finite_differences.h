// Compares gradients with central differences of a loss, in f64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/matrix.h"
#include "ops/parameters.h"

namespace fulmar::support {

using HostNumbers = Matrix<double>;

// Numbers base +- amplitude of a generator with a fixed seed.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : generator_(seed) {}

  double number() { return static_cast<double>(generator_() >> 11) * 0x1p-52 - 1; }
  HostNumbers matrix(int64_t rows, int64_t cols, double amplitude = 1, double base = 0) {
    HostNumbers m(rows, cols);
    for (double& one : m.values) one = base + amplitude * number();
    return m;
  }

 private:
  std::mt19937_64 generator_;
};

// A tensor of a loss, and the gradient to be checked.
struct CheckedTensor {
  std::string name;
  HostNumbers* value = nullptr;
  const HostNumbers* gradient = nullptr;
};

// Makes trained parameters, whose addresses stay.
class CheckedParameters {
 public:
  explicit CheckedParameters(RandomNumbers& random) : random_(random) {}

  Parameter<double>* make(int64_t rows, int64_t cols, double amplitude = 1, double base = 0) {
    Parameter<double>& p = all_.emplace_back();
    p.value = random_.matrix(rows, cols, amplitude, base);
    p.gradient = HostNumbers(rows, cols);
    return &p;
  }
  void clear_gradients() {
    for (Parameter<double>& p : all_) p.gradient = HostNumbers(p.value.rows, p.value.cols);
  }
  std::deque<Parameter<double>>& all() { return all_; }
  // Returns these matrices and the gradients of all.
  std::vector<HostNumbers> gradients_and(std::vector<HostNumbers> matrices) const {
    for (const Parameter<double>& p : all_) matrices.push_back(p.gradient);
    return matrices;
  }
  // Appends all of them to what is checked, by their order.
  void append_to(std::vector<CheckedTensor>& checked) {
    for (size_t i = 0; i < all_.size(); i++) {
      checked.push_back({"parameter " + std::to_string(i), &all_[i].value, &all_[i].gradient});
    }
  }

 private:
  RandomNumbers& random_;
  std::deque<Parameter<double>> all_;
};

inline double inner_product(const HostNumbers& a, const HostNumbers& b) {
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.cols, b.cols);
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); i++) sum += a.values[i] * b.values[i];
  return sum;
}

// Expects the gradients to be those of `loss`, which reads the tensors' values and changes none: along random
// directions, relative to what a gradient of its length gives.
inline void expect_gradients(const std::vector<CheckedTensor>& tensors, RandomNumbers& random,
                             const std::function<double()>& loss) {
  constexpr double kStep = 1e-5, kMostError = 3e-6;
  for (const CheckedTensor& tensor : tensors) {
    const HostNumbers kept = *tensor.value;
    const HostNumbers along = random.matrix(kept.rows, kept.cols);
    const auto moved = [&](double by) {
      for (size_t i = 0; i < kept.values.size(); i++) {
        tensor.value->values[i] = kept.values[i] + by * along.values[i];
      }
      return loss();
    };
    const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
    *tensor.value = kept;
    const double exact = inner_product(*tensor.gradient, along);
    const double length = std::sqrt(inner_product(*tensor.gradient, *tensor.gradient));
    EXPECT_NEAR(numeric, exact, kMostError * (length + 1e-3)) << tensor.name;
  }
}

}  // namespace fulmar::support
