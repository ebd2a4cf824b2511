// The models and batches of the golden files about tuning.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "files/synthetic.h"
#include "support/shared_files.h"
#include "tune/trained_model.h"

namespace fulmar::test {

// Opens a model of a golden case by its name: a file, or "synth 7, ..." for a computed one.
inline std::unique_ptr<Checkpoint> tuned_checkpoint(const std::string& name) {
  if (name.starts_with("synth ")) {
    SyntheticSpec spec{.version = name[6] - '0', .n_layer = 3, .n_head = 4, .head_size = 16, .vocab = 48};
    spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = 8;
    spec.rank_mix = 4, spec.rank_decay = 8, spec.n_ffn = 256;
    return synthetic_checkpoint(spec);
  }
  auto opened = open_checkpoint(support::shared_folder() / "models" / name);
  EXPECT_TRUE(opened.ok()) << opened.error().text;
  return opened.ok() ? std::move(opened).value() : nullptr;
}

template <class Number>
ModelParameters<Number> golden_parameters(const std::string& name) {
  const std::unique_ptr<Checkpoint> checkpoint = tuned_checkpoint(name);
  auto parameters = load_parameters<Number>(*checkpoint);
  EXPECT_TRUE(parameters.ok()) << parameters.error().text;
  return std::move(parameters).value();
}

inline TuneBatch golden_batch(const support::Json& json) {
  TuneBatch batch;
  for (size_t s = 0; s < json["tokens"].size(); s++) {
    for (const int32_t token : json["tokens"][s]) batch.tokens.push_back(token);
    for (const int32_t target : json["targets"][s]) batch.targets.push_back(target);
    batch.bounds.push_back(static_cast<int64_t>(batch.tokens.size()));
  }
  return batch;
}

// The checksum of the golden files.
template <class Number>
double tuned_checksum(const Matrix<Number>& m) {
  double sum = 0;
  for (size_t i = 0; i < m.values.size(); i++) {
    sum += static_cast<double>(m.values[i]) * static_cast<double>((i * 7919) % 1009) / 1009.0;
  }
  return sum;
}

template <class Number>
double euclidean_norm(const Matrix<Number>& m) {
  double sum = 0;
  for (const Number one : m.values) sum += static_cast<double>(one) * static_cast<double>(one);
  return std::sqrt(sum);
}

}  // namespace fulmar::test
