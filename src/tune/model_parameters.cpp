#include "tune/model_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "files/identify.h"
#include "files/synthetic.h"
#include "files/time_state.h"
#include "files/versions.h"

namespace fulmar {
namespace {

template <class Number>
Matrix<Number> to_matrix(std::span<const float> values, int64_t rows, int64_t cols) {
  Matrix<Number> m(rows, cols);
  FULMAR_CHECK(values.size() == m.values.size());
  std::copy(values.begin(), values.end(), m.values.begin());
  return m;
}

// Copies a tensor to a matrix: vectors and tensors of heads become one row, the first two of three axes one.
template <class Number>
Matrix<Number> weight_of(const StoredTensor& stored, const ModelTensor& tensor, const ModelConfig& config) {
  std::vector<float> values(static_cast<size_t>(stored.count()));
  copy_as_f32(stored, values);
  const std::vector<int64_t> shape = shape_of(tensor, config);
  const bool one_row = shape.size() == 1 || tensor.part == GgufPart::heads;
  const int64_t cols = one_row ? stored.count() : shape.back();
  return to_matrix<Number>(values, stored.count() / cols, cols);
}

// Adds what a sequence begins with in each layer.
template <class Number>
Status add_beginnings(const Checkpoint& checkpoint, ModelParameters<Number>& parameters) {
  const ModelConfig& config = parameters.config;
  TimeState states;
  if (config.time_state) {
    FULMAR_ASSIGN(states, read_time_state(checkpoint, config, TimeStateOrder::value_major));
  }
  for (int64_t l = 0; l < config.n_layer; l++) {
    const int64_t size = config.head_size * config.head_size;
    Matrix<Number> state(config.n_head, size);
    if (!states.empty()) state = to_matrix<Number>(states[static_cast<size_t>(l)], config.n_head, size);
    parameters.all[fmt::format("blocks.{}.att.time_state", l)].value = std::move(state);
    for (const char* half : {"att", "ffn"}) {
      parameters.all[fmt::format("blocks.{}.{}.shift0", l, half)].value = Matrix<Number>(1, config.n_embd);
    }
  }
  return {};
}

}  // namespace

template <class Number>
Parameter<Number>* ModelParameters<Number>::find(std::string_view name) {
  const auto found = all.find(name);
  return found == all.end() ? nullptr : &found->second;
}

template <class Number>
void ModelParameters<Number>::train(std::span<const std::string_view> endings) {
  for (auto& [name, parameter] : all) {
    const bool trained = std::ranges::any_of(
        endings, [&name = name](std::string_view ending) { return name.ends_with(ending); });
    parameter.gradient =
        trained ? Matrix<Number>(parameter.value.rows, parameter.value.cols) : Matrix<Number>();
  }
}

template <class Number>
Result<ModelParameters<Number>> load_parameters(const Checkpoint& checkpoint) {
  ModelParameters<Number> parameters;
  FULMAR_ASSIGN(parameters.config, identify(checkpoint));
  const ModelConfig& config = parameters.config;
  if (config.deep_embed) {
    return Error{ErrorKind::unsupported, "the model is an RWKV-7a; only RWKV-7 and RWKV-6 can be tuned"};
  }
  const auto load = [&](const std::string& name, const ModelTensor& tensor) {
    if (const StoredTensor* stored = checkpoint.find(name); stored != nullptr) {
      parameters.all[name].value = weight_of<Number>(*stored, tensor, config);
    }
  };
  for (const ModelTensor& tensor : version_of(config.version).tensors) {
    if (!in_blocks(tensor)) load(std::string(tensor.name), tensor);
    for (int64_t l = 0; l < config.n_layer; l++) {
      if (in_block(tensor, l, config)) load(fmt::format("blocks.{}.{}", l, tensor.name), tensor);
    }
  }
  FULMAR_TRY(add_beginnings(checkpoint, parameters));
  return parameters;
}

std::vector<std::string> adapted_matrices_of(const ModelConfig& config) {
  std::vector<std::string> names;
  for (int64_t l = 0; l < config.n_layer; l++) {
    for (const ModelTensor& tensor : version_of(config.version).tensors) {
      const bool matrix = tensor.part == GgufPart::matrix || tensor.part == GgufPart::rescaled_matrix;
      if (!matrix || !in_blocks(tensor) || !in_block(tensor, l, config)) continue;
      const std::string_view name = tensor.name;
      names.push_back(fmt::format("blocks.{}.{}", l, name.substr(0, name.rfind(".weight"))));
    }
  }
  return names;
}

template <class Number>
void add_adapter(ModelParameters<Number>& parameters, const std::string& matrix, const AdapterShape& shape,
                 uint64_t seed) {
  const Parameter<Number>* weight = parameters.find(matrix + ".weight");
  FULMAR_CHECK(weight != nullptr && shape.rank >= 1);
  const int64_t out = weight->value.rows, in = weight->value.cols;
  parameters.scales[matrix] = static_cast<Number>(shape.scale);
  if (shape.kind == AdapterKind::miss) {
    parameters.all[matrix + ".miss"].value = Matrix<Number>(shape.rank, out);
    return;
  }
  std::vector<float> first(static_cast<size_t>(shape.rank * in));
  synthetic_numbers(matrix + ".lora_A", seed, 1 / std::sqrt(static_cast<double>(in)), first);
  parameters.all[matrix + ".lora_A"].value = to_matrix<Number>(first, shape.rank, in);
  parameters.all[matrix + ".lora_B"].value = Matrix<Number>(out, shape.rank);
}

#define FULMAR_MODEL_PARAMETERS_OF(N)                                     \
  template struct ModelParameters<N>;                                     \
  template Result<ModelParameters<N>> load_parameters(const Checkpoint&); \
  template void add_adapter(ModelParameters<N>&, const std::string&, const AdapterShape&, uint64_t)
FULMAR_MODEL_PARAMETERS_OF(float);
FULMAR_MODEL_PARAMETERS_OF(double);
#undef FULMAR_MODEL_PARAMETERS_OF

}  // namespace fulmar
