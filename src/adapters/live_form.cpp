#include "adapters/live_form.h"

#include <fmt/format.h>

#include <utility>

#include "adapters/delta_rows.h"
#include "adapters/names.h"
#include "tensor/quantise.h"

namespace fulmar {
namespace {

HostMatrix view(const HostTensor& tensor) {
  return {tensor.bytes.data(), tensor.dtype, tensor.shape[0], tensor.shape[1], tensor.shape[1], 1};
}

HostMatrix turned(HostMatrix matrix) {
  std::swap(matrix.rows, matrix.cols);
  std::swap(matrix.row_stride, matrix.col_stride);
  return matrix;
}

// Returns W as [out, in], row-major.
std::vector<float> matrix_of(const Checkpoint& model, const std::string& name) {
  const StoredTensor& stored = *model.find(name);
  const StoredTensor tensor = is_input_major(name) ? transposed(stored) : stored;
  const HostMatrix matrix{tensor.data,       tensor.dtype,      tensor.shape[0], tensor.shape[1],
                          tensor.strides[0], tensor.strides[1], tensor.scales,   tensor.group};
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  rows_as_f32(matrix, 0, values);
  return values;
}

Error merged_only(const std::string& name, std::string_view what) {
  return {ErrorKind::unsupported,
          fmt::format("'{}': {} cannot be computed beside a model; merge the adapter into it", name, what)};
}

}  // namespace

Status check_live(const Adapter& adapter) {
  if (!adapter.whole.empty()) return merged_only(adapter.whole.front().name, "a whole tensor");
  for (const Delta& delta : adapter.deltas) {
    if (delta.weight == "emb.weight") return merged_only(delta.weight, "a change of the embedding");
    if (delta.kind == DeltaKind::bat_out) return merged_only(delta.weight, "Bat by outputs");
  }
  return {};
}

Result<LiveForm> live_form(const Adapter& adapter, const Checkpoint& model, const BaseShapes& shapes) {
  FULMAR_TRY(check_live(adapter));
  LiveForm form;
  for (const Delta& delta : adapter.deltas) {
    HostDelta& one = form.deltas.emplace_back();
    one.matrix = delta.weight;
    one.rank = delta.rank();
    one.scale = static_cast<float>(delta.scale);
    const auto keep = [&](std::vector<float> numbers) {
      return std::span(form.numbers.emplace_back(std::move(numbers)));
    };
    if (delta.kind == DeltaKind::miss) {
      one.up = turned(view(delta.d));
    } else if (delta.kind == DeltaKind::bat_in) {
      one.blocks = keep(delta.d.floats());
    } else {
      one.down = view(delta.a);
      one.up = view(delta.b);
    }
    if (delta.kind != DeltaKind::dora_out && delta.kind != DeltaKind::dora_in) continue;
    FULMAR_ASSIGN(const LinearShape shape, linear_of(shapes, delta.weight));
    const std::span<const float> gain = keep(dora_gain(delta, shape, matrix_of(model, delta.weight)));
    (delta.kind == DeltaKind::dora_out ? one.gain : one.input_gain) = gain;
  }
  return form;
}

std::vector<std::vector<float>> state_numbers(const Adapter& adapter) {
  std::vector<std::vector<float>> layers(adapter.states.size());
  for (const WholeTensor& state : adapter.states) {
    layers.at(static_cast<size_t>(layer_name(state.name)->layer)) = state.value.floats();
  }
  return layers;
}

}  // namespace fulmar
