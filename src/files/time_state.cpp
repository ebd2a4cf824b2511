#include "files/time_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "files/mapped_file.h"

namespace fulmar {
namespace {

constexpr std::string_view kSuffix = ".att.time_state";

std::string layer_name(int64_t layer) { return fmt::format("blocks.{}{}", layer, kSuffix); }

Result<std::vector<float>> read_layer(const Checkpoint& checkpoint, int64_t layer, const ModelConfig& config,
                                      bool key_major) {
  const std::string name = layer_name(layer);
  const std::vector<int64_t> wanted = {config.n_head, config.head_size, config.head_size};
  const StoredTensor* found = checkpoint.find(name);
  if (found == nullptr) {
    return Error{ErrorKind::invalid,
                 fmt::format("state of layer {} is missing ({} {}); the model has {} layers", layer, name,
                             shape_text(wanted), config.n_layer)};
  }
  if (found->shape != wanted) {
    return Error{ErrorKind::invalid, fmt::format("{} has shape {}; the model wants {}", name,
                                                 shape_text(found->shape), shape_text(wanted))};
  }
  if (!is_float(found->dtype)) {
    return Error{ErrorKind::invalid,
                 fmt::format("{} has type {}; wanted f32, f16, bf16 or f64", name, name_of(found->dtype))};
  }
  StoredTensor tensor = *found;
  if (key_major) {
    std::swap(tensor.strides[1], tensor.strides[2]);
  }
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    return Error{ErrorKind::invalid, fmt::format("{} holds numbers that are not finite", name)};
  }
  return values;
}

}  // namespace

Result<TimeState> read_time_state(const Checkpoint& checkpoint, const ModelConfig& config,
                                  TimeStateOrder order) {
  int64_t layers = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (tensor.name.ends_with(".att.time_offset")) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("{} belongs to another family of models; this state cannot be used", tensor.name)};
    }
    layers += tensor.name.ends_with(kSuffix) ? 1 : 0;
  }
  if (layers == 0) {
    return Error{ErrorKind::invalid, fmt::format("holds no tuned state (no {} among {} tensors)",
                                                 layer_name(0), checkpoint.tensors().size())};
  }
  TimeState state;
  for (int64_t layer = 0; layer < config.n_layer; layer++) {
    FULMAR_ASSIGN(std::vector<float> values,
                  read_layer(checkpoint, layer, config, order == TimeStateOrder::key_major));
    state.push_back(std::move(values));
  }
  if (layers != config.n_layer) {
    return Error{ErrorKind::invalid,
                 fmt::format("holds states of {} layers; the model has {}", layers, config.n_layer)};
  }
  return state;
}

Result<TimeState> read_time_state(const std::filesystem::path& path, const ModelConfig& config,
                                  TimeStateOrder order) {
  if (order == TimeStateOrder::by_container) {
    order = path.extension() == ".st" ? TimeStateOrder::key_major : TimeStateOrder::value_major;
  }
  Result<TimeState> state = watched([&]() -> Result<TimeState> {
    FULMAR_ASSIGN(const std::unique_ptr<Checkpoint> checkpoint, open_checkpoint(path));
    return read_time_state(*checkpoint, config, order);
  });
  if (!state.ok()) return Error{state.error().kind, fmt::format("{}: {}", path.string(), state.error().text)};
  return state;
}

}  // namespace fulmar
