#include "tune/optimiser.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fulmar {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEpsilon = 1e-8;

template <class Number>
double gradient_norm(const ModelParameters<Number>& parameters) {
  double squares = 0;
  for (const auto& [name, parameter] : parameters.all) {
    for (const Number one : parameter.gradient.values)
      squares += static_cast<double>(one) * static_cast<double>(one);
  }
  return std::sqrt(squares);
}

// The factors of one step, the same for all numbers.
template <class Number>
struct StepFactors {
  Number clip, rate, unbias1, unbias2;
};

template <class Number>
void move(Parameter<Number>& parameter, Moments<Number>& moments, const StepFactors<Number>& by) {
  for (size_t i = 0; i < parameter.value.values.size(); i++) {
    const Number gradient = parameter.gradient.values[i] * by.clip;
    Number &m = moments.first.values[i], &v = moments.second.values[i];
    m = static_cast<Number>(kBeta1) * m + static_cast<Number>(1 - kBeta1) * gradient;
    v = static_cast<Number>(kBeta2) * v + static_cast<Number>(1 - kBeta2) * gradient * gradient;
    parameter.value.values[i] -=
        by.rate * (m / by.unbias1) / (std::sqrt(v / by.unbias2) + static_cast<Number>(kEpsilon));
  }
}

}  // namespace

double learning_rate(const LearningRate& rate, int64_t step, int64_t total) {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(rate.warmup);
  if (rate.schedule == Schedule::cosine) {
    const double part = total > 0 ? std::min(1.0, at / static_cast<double>(total)) : 1;
    const double now = rate.last + 0.5 * (rate.first - rate.last) * (1 + std::cos(std::numbers::pi * part));
    return step < rate.warmup ? now * (0.01 + 0.99 * at / warmup) : now;
  }
  if (step < rate.warmup) return rate.first * (at + 1) / warmup;
  if (rate.schedule == Schedule::constant) return rate.first;
  const double after = total > rate.warmup ? static_cast<double>(total - rate.warmup) : 1;
  return rate.first * std::pow(rate.last / rate.first, std::min(1.0, (at + 1 - warmup) / after));
}

template <class Number>
double Adam<Number>::step(ModelParameters<Number>& parameters, double rate, double clip) {
  const double norm = gradient_norm(parameters);
  if (!std::isfinite(norm)) return norm;
  steps++;
  const auto done = static_cast<double>(steps);
  const StepFactors<Number> by{static_cast<Number>(clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1),
                               static_cast<Number>(rate), static_cast<Number>(1 - std::pow(kBeta1, done)),
                               static_cast<Number>(1 - std::pow(kBeta2, done))};
  for (auto& [name, parameter] : parameters.all) {
    if (!parameter.trained()) continue;
    Moments<Number>& kept = moments[name];
    if (kept.first.empty()) {
      kept.first = kept.second = Matrix<Number>(parameter.value.rows, parameter.value.cols);
    }
    move(parameter, kept, by);
  }
  return norm;
}

template struct Adam<float>;
template struct Adam<double>;

}  // namespace fulmar
