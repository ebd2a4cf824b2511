#include "support/adapter_recipe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tensor/convert.h"

namespace fulmar::support {

namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

// Numbers of a matrix, row-major.
struct Numbers {
  std::vector<float> values;
  int64_t rows = 0, cols = 0;
};

HostMatrix view(const std::vector<float>& values, int64_t rows, int64_t cols) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, rows, cols, cols};
}

// W as a linear map [out, in]; low-rank factors are stored by input.
Numbers matrix_of(const Checkpoint& model, const std::string& name) {
  const StoredTensor* tensor = model.find(name);
  if (tensor == nullptr || tensor->shape.size() != 2) {
    ADD_FAILURE() << name << " is no matrix of the model";
    return {};
  }
  std::vector<float> stored(static_cast<size_t>(tensor->count()));
  copy_as_f32(*tensor, stored);
  if (name.ends_with(".weight")) return {stored, tensor->shape[0], tensor->shape[1]};
  Numbers turned{std::vector<float>(stored.size()), tensor->shape[1], tensor->shape[0]};
  for (int64_t i = 0; i < turned.rows; i++) {
    for (int64_t j = 0; j < turned.cols; j++) {
      turned.values[static_cast<size_t>(i * turned.cols + j)] =
          stored[static_cast<size_t>(j * turned.rows + i)];
    }
  }
  return turned;
}

// Norms of the rows, or of the columns.
std::vector<double> norms(const std::vector<double>& w, int64_t rows, int64_t cols, bool of_rows) {
  std::vector<double> squares(static_cast<size_t>(of_rows ? rows : cols));
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < cols; j++) {
      const double one = w[static_cast<size_t>(i * cols + j)];
      squares[static_cast<size_t>(of_rows ? i : j)] += one * one;
    }
  }
  for (double& one : squares) one = std::sqrt(one);
  return squares;
}

// The magnitudes of the recipe, divided by the norms of W + scale * B A.
std::vector<float> dora_gain(const std::string& part, const Numbers& w, const HostDelta& delta,
                             bool by_outputs) {
  std::vector<double> base(w.values.begin(), w.values.end()), adapted = base;
  const auto* a = reinterpret_cast<const float*>(delta.down.data);
  const auto* b = reinterpret_cast<const float*>(delta.up.data);
  for (int64_t i = 0; i < w.rows; i++) {
    for (int64_t j = 0; j < w.cols; j++) {
      double sum = 0;
      for (int64_t r = 0; r < delta.rank; r++) {
        sum += static_cast<double>(b[i * delta.rank + r]) * static_cast<double>(a[r * w.cols + j]);
      }
      adapted[static_cast<size_t>(i * w.cols + j)] += static_cast<double>(delta.scale) * sum;
    }
  }
  const std::vector<double> before = norms(base, w.rows, w.cols, by_outputs);
  const std::vector<double> after = norms(adapted, w.rows, w.cols, by_outputs);
  const std::vector<float> factor = recipe_numbers(part + ".m", before.size(), 0.2, 1.0);
  std::vector<float> gain(before.size());
  for (size_t i = 0; i < gain.size(); i++) {
    const auto magnitude =
        static_cast<double>(static_cast<float>(before[i] * static_cast<double>(factor[i])));
    gain[i] = static_cast<float>(magnitude / (after[i] + (by_outputs ? 0.0 : 1e-6)));
  }
  return gain;
}

}  // namespace

std::vector<float> recipe_numbers(std::string_view name, size_t count, double amp, double base) {
  uint64_t state = 0xcbf29ce484222325;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    uint64_t z = state += kStep;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    const double u = static_cast<double>(z >> 40) / (1 << 24);
    number = static_cast<float>(base + amp * (2 * u - 1));
  }
  return numbers;
}

std::vector<std::string> adapted_matrices(int version, int64_t n_layer) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < n_layer; l++) {
    const std::string block = "blocks." + std::to_string(l) + ".";
    for (const char* name :
         {"att.receptance", "att.key", "att.value", "att.output", "ffn.key", "ffn.value"}) {
      names.push_back(block + name + ".weight");
    }
    if (version != 6) continue;
    names.push_back(block + "att.gate.weight");
    names.push_back(block + "ffn.receptance.weight");
  }
  return names;
}

AdapterRecipe make_adapter(const RecipeSpec& spec, const std::vector<std::string>& matrices,
                           const Checkpoint& model) {
  AdapterRecipe made;
  const auto keep = [&](std::vector<float> values) -> const std::vector<float>& {
    return made.numbers.emplace_back(std::move(values));
  };
  for (const std::string& name : matrices) {
    const Numbers w = matrix_of(model, name);
    const std::string part = name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
    const auto count = [&](int64_t n) { return static_cast<size_t>(n); };
    HostDelta delta{.matrix = name, .rank = spec.rank, .scale = spec.scale};
    if (spec.kind == "miss") {
      const auto& d = keep(recipe_numbers(part + ".miss", count(spec.rank * w.rows), spec.amp));
      delta.up = view(d, w.rows, spec.rank);
      delta.up.row_stride = 1, delta.up.col_stride = w.rows;
    } else if (spec.kind == "bat_in") {
      const double amp = spec.amp / static_cast<double>(spec.rank);
      delta.blocks = keep(recipe_numbers(part + ".bat", count(w.cols * spec.rank), amp));
    } else {
      const double amp = 1 / std::sqrt(static_cast<double>(w.cols));
      delta.down =
          view(keep(recipe_numbers(part + ".lora_A", count(spec.rank * w.cols), amp)), spec.rank, w.cols);
      delta.up = view(keep(recipe_numbers(part + ".lora_B", count(w.rows * spec.rank), spec.amp)), w.rows,
                      spec.rank);
      if (spec.kind == "dora_out") delta.gain = keep(dora_gain(part, w, delta, true));
      if (spec.kind == "dora_in") delta.input_gain = keep(dora_gain(part, w, delta, false));
    }
    made.deltas.push_back(delta);
  }
  return made;
}

}  // namespace fulmar::support
