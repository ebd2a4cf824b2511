#include "adapters/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "adapters/names.h"
#include "files/identify.h"

namespace fulmar {
namespace {

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

Error lacks(const BaseShapes& base, const std::string& name) {
  return invalid(
      fmt::format("the model has no tensor '{}' (RWKV-{}, {} layers)", name, base.version, base.n_layer));
}

Error misfit(const Delta& delta, std::string_view part, const HostTensor& found, std::string_view wanted) {
  return invalid(
      fmt::format("'{}': {} is {}; the model wants {}", delta.weight, part, shape_text(found.shape), wanted));
}

Status fit_pair(Delta& delta, const LinearShape& linear) {
  if (delta.a.shape[1] != linear.in) return misfit(delta, "A", delta.a, fmt::format("[r, {}]", linear.in));
  if (delta.b.shape[0] != linear.out) return misfit(delta, "B", delta.b, fmt::format("[{}, r]", linear.out));
  if (delta.kind == DeltaKind::low_rank) return {};
  const int64_t wanted = delta.kind == DeltaKind::dora_out ? linear.out : linear.in;
  const auto is_size = [&](int64_t size) { return size == 1 || size == wanted; };
  const auto& shape = delta.m.shape;
  if (delta.m.count() != wanted || !std::all_of(shape.begin(), shape.end(), is_size)) {
    return misfit(delta, "the magnitude", delta.m, fmt::format("[{}]", wanted));
  }
  delta.m.shape = {wanted};
  return {};
}

Status fit_miss(Delta& delta, const LinearShape& linear) {
  if (delta.inputs != 0 && delta.inputs != linear.in) {
    return invalid(
        fmt::format("'{}' is for {} inputs; the model has {}", delta.weight, delta.inputs, linear.in));
  }
  delta.inputs = linear.in;
  if (delta.mini) {
    const int64_t cols = delta.d.shape[1];
    if (cols == 0 || linear.out % cols != 0) {
      return misfit(delta, "MiSS mini", delta.d, fmt::format("columns that divide {}", linear.out));
    }
    const size_t row = static_cast<size_t>(cols) * size_of(delta.d.dtype);
    std::vector<std::byte> all;
    for (int64_t r = 0; r < delta.d.shape[0]; r++) {
      const auto* const first = delta.d.bytes.data() + static_cast<size_t>(r) * row;
      for (int64_t i = 0; i < linear.out / cols; i++) all.insert(all.end(), first, first + row);
    }
    delta.d.bytes = std::move(all);
    delta.d.shape[1] = linear.out;
    delta.mini = false;
  }
  if (delta.d.shape[1] == linear.out) return {};
  return misfit(delta, "MiSS", delta.d, fmt::format("[r, {}]", linear.out));
}

Status fit_bat(const Delta& delta, const LinearShape& linear) {
  const int64_t r = delta.rank();
  if (linear.out % r != 0 || linear.in % r != 0) {
    return invalid(fmt::format("'{}': [{}, {}] does not divide into blocks of {}", delta.weight, linear.out,
                               linear.in, r));
  }
  const int64_t wanted = (delta.kind == DeltaKind::bat_in ? linear.in : linear.out) / r;
  if (delta.d.shape[0] == wanted) return {};
  return misfit(delta, "Bat", delta.d, fmt::format("{} blocks", wanted));
}

Status fit_delta(Delta& delta, const BaseShapes& base) {
  FULMAR_ASSIGN(const LinearShape linear, linear_of(base, delta.weight));
  if (delta.weight == "emb.weight") {
    if (delta.kind != DeltaKind::low_rank) {
      return Error{ErrorKind::unsupported,
                   fmt::format("'emb.weight' takes LoRA; found {}", name_of(delta.kind))};
    }
    if (base.embedding_normed) {
      return Error{ErrorKind::unsupported,
                   "'emb.weight': the model's embedding includes ln0 already; LoRA acts before it"};
    }
  }
  switch (delta.kind) {
    case DeltaKind::miss:
      return fit_miss(delta, linear);
    case DeltaKind::bat_in:
    case DeltaKind::bat_out:
      return fit_bat(delta, linear);
    default:
      return fit_pair(delta, linear);
  }
}

std::vector<int64_t> without_units(std::vector<int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

Status fit_whole(const WholeTensor& whole, const BaseShapes& base) {
  const auto found = base.tensors.find(whole.name);
  if (found == base.tensors.end()) return lacks(base, whole.name);
  if (base.embedding_normed && whole.name == "emb.weight") {
    return Error{ErrorKind::unsupported, "'emb.weight': the model's embedding includes ln0 already"};
  }
  if (without_units(found->second) == without_units(whole.value.shape)) return {};
  return invalid(fmt::format("'{}' is {}; the model has {}", whole.name, shape_text(whole.value.shape),
                             shape_text(found->second)));
}

Status fit_states(const Adapter& adapter, const BaseShapes& base) {
  if (adapter.states.empty()) return {};
  const std::vector<int64_t> wanted = {base.n_head, base.head_size, base.head_size};
  for (const WholeTensor& state : adapter.states) {
    if (state.value.shape != wanted) {
      return invalid(fmt::format("'{}' is {}; the model wants {}", state.name, shape_text(state.value.shape),
                                 shape_text(wanted)));
    }
    if (layer_name(state.name)->layer >= base.n_layer) return lacks(base, state.name);
  }
  if (static_cast<int64_t>(adapter.states.size()) == base.n_layer) return {};
  return invalid(
      fmt::format("initial states of {} layers; the model has {}", adapter.states.size(), base.n_layer));
}

}  // namespace

BaseShapes base_shapes(const Checkpoint& checkpoint, const ModelConfig& config) {
  BaseShapes base{config.version,   config.n_layer,          config.n_head,
                  config.head_size, config.embedding_normed, {}};
  for (const StoredTensor& tensor : checkpoint.tensors()) base.tensors.emplace(tensor.name, tensor.shape);
  return base;
}

Result<LinearShape> linear_of(const BaseShapes& base, const std::string& weight) {
  const auto found = base.tensors.find(weight);
  if (found == base.tensors.end()) return lacks(base, weight);
  const auto block = layer_name(weight);
  if (block && is_unused(base.version, block->layer, block->rest)) {
    return invalid(fmt::format("'{}' is in the model's file and never read", weight));
  }
  const std::vector<int64_t>& shape = found->second;
  const bool heads = block && (block->rest == "att.r_k" || block->rest == "att.time_faaaa");
  if (shape.size() != 2 || heads) {
    return invalid(fmt::format("'{}' {} is no matrix of a product; low-rank deltas change only those", weight,
                               shape_text(shape)));
  }
  if (is_input_major(weight)) return LinearShape{shape[1], shape[0]};
  return LinearShape{shape[0], shape[1]};
}

Status fit_adapter(Adapter& adapter, const BaseShapes& base) {
  if (adapter.version != 0 && adapter.version != base.version) {
    return invalid(
        fmt::format("the adapter is for RWKV-{}; the model is RWKV-{}", adapter.version, base.version));
  }
  for (Delta& delta : adapter.deltas) FULMAR_TRY(fit_delta(delta, base));
  for (const WholeTensor& whole : adapter.whole) FULMAR_TRY(fit_whole(whole, base));
  return fit_states(adapter, base);
}

Status check_fingerprint(const Adapter& adapter, const std::string& sha256) {
  if (adapter.base_fingerprint.empty() || adapter.base_fingerprint == sha256) return {};
  return invalid(fmt::format("the adapter was trained on the model with SHA-256 {}; this one has {}",
                             adapter.base_fingerprint, sha256));
}

}  // namespace fulmar
