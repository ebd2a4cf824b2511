// What turns gradients into steps: Adam, clipping, and schedules of the learning rate. Pure numbers; knows no
// model.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ops/parameters.h"
#include "tune/model_parameters.h"

namespace fulmar {

enum class Schedule : uint8_t {
  geometric,  // warm-up from first / warmup to first, then by equal factors to last
  cosine,     // half a cosine from first to last, times a ramp from 1 % during the warm-up
  constant    // first, after a warm-up as in geometric
};

struct LearningRate {
  Schedule schedule = Schedule::geometric;
  double first = 1, last = 0.01;  // above 0
  int64_t warmup = 10;            // steps
};

// Returns the learning rate of step `step`, counted from 0, of `total`.
double learning_rate(const LearningRate& rate, int64_t step, int64_t total);

// The moments of a trained parameter, in its order.
template <class Number>
struct Moments {
  Matrix<Number> first, second;
};

// Adam with decay rates 0.9 and 0.99 and an epsilon of 1e-8, without weight decay. An entry whose gradients
// were all exactly 0 stays as it is.
template <class Number>
struct Adam {
  int64_t steps = 0;  // done
  std::map<std::string, Moments<Number>, std::less<>> moments;

  // Changes the trained parameters by their gradients, which it scales together down to a norm of `clip`
  // first (0: never). Returns the norm before that. Changes nothing where the norm is not finite.
  double step(ModelParameters<Number>& parameters, double rate, double clip);
};

}  // namespace fulmar
