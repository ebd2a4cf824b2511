// rwkv_lightning's MiSS package in one file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "adapters/lightning_manifest.h"
#include "adapters/writing.h"
#include "base/sha256.h"
#include "files/pth_writer.h"

namespace fulmar {
namespace {

constexpr std::string_view kForm = "a MiSS package";

// Returns the type that all numbers are written in.
Result<DType> type_of(const Adapter& adapter) {
  DType type = DType::f32;
  for (const Delta& delta : adapter.deltas) {
    if (delta.d.dtype == DType::f32 || delta.d.dtype == type) continue;
    if (type != DType::f32) {
      return no_place_for(delta.weight, fmt::format("{} beside {}", name_of(delta.d.dtype), name_of(type)),
                          kForm);
    }
    type = delta.d.dtype;
  }
  return type == DType::f32 ? DType::bf16 : type;
}

Status check(const Adapter& adapter, int version) {
  if (!adapter.whole.empty()) return no_place_for(adapter.whole.front().name, "whole tensors", kForm);
  if (version != 0 && version != 7) {
    return no_place_for(adapter.deltas.front().weight, fmt::format("RWKV-{}", version), kForm);
  }
  for (const Delta& delta : adapter.deltas) {
    const Delta& first = adapter.deltas.front();
    if (delta.kind != DeltaKind::miss) return no_place_for(delta.weight, name_of(delta.kind), kForm);
    if (!is_lightning_target(delta.weight)) {
      return no_place_for(delta.weight, "this part of a model", kForm);
    }
    if (delta.rank() != first.rank() || delta.scale != first.scale) {
      return no_place_for(delta.weight,
                          fmt::format("rank {} and scale {} beside {} and {}", delta.rank(), delta.scale,
                                      first.rank(), first.scale),
                          kForm);
    }
    if (delta.inputs == 0 || delta.mini) {
      return Error{
          ErrorKind::invalid,
          fmt::format("'{}': {} says how many inputs it has; give the base model", delta.weight, kForm)};
    }
  }
  return {};
}

// Returns D as [out, rank] of a type.
Result<HostTensor> turned(const Delta& delta, DType type) {
  const StoredTensor view = transposed(delta.d.stored({}));
  HostTensor matrix{delta.d.dtype, view.shape, gather_contiguous(view)};
  const std::vector<float> values = matrix.floats();
  constexpr float kMostF16 = 65504;
  const auto large =
      std::find_if(values.begin(), values.end(), [](float x) { return std::abs(x) > kMostF16; });
  if (large != values.end()) {
    return no_place_for(delta.weight, fmt::format("{}, beyond f16", *large), kForm);
  }
  return matrix.dtype == type ? std::move(matrix) : host_tensor(values, view.shape, type);
}

}  // namespace

Status write_lightning(const std::filesystem::path& file, const Adapter& adapter, const AdapterFacts& facts) {
  FULMAR_TRY(check(adapter, adapter.version != 0 ? adapter.version : facts.version));
  const std::string& base =
      adapter.base_fingerprint.empty() ? facts.base_fingerprint : adapter.base_fingerprint;
  if (base.empty()) {
    return Error{ErrorKind::invalid,
                 fmt::format("{} names its base model by SHA-256; give the base model", kForm)};
  }
  LightningFacts said;
  FULMAR_ASSIGN(said.dtype, type_of(adapter));
  said.rank = adapter.most_rank();
  const auto scale = static_cast<float>(adapter.deltas.front().scale), rank = static_cast<float>(said.rank);
  said.alpha = static_cast<double>(alpha_of(scale, rank).value_or(scale * rank));
  said.base_fingerprint = base;
  std::vector<LightningTarget> targets;
  std::vector<HostTensor> matrices;
  for (const Delta& delta : adapter.deltas) {
    targets.push_back({delta.weight, delta.d.shape[1], delta.inputs});
    FULMAR_ASSIGN(HostTensor matrix, turned(delta, said.dtype));
    matrices.push_back(std::move(matrix));
  }
  Sha256 sum;
  sum.add(lightning_manifest_text(said, targets, {}));
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < targets.size(); i++) {
    sum.add(as_text(matrices[i].bytes));
    tensors.push_back(matrices[i].stored(targets[i].weight + ".D"));
  }
  const PthMember manifest{"miss.json", lightning_manifest_text(said, targets, sum.hex())};
  return write_pth(file, tensors, {}, {&manifest, 1});
}

}  // namespace fulmar
