#include "adapters/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "adapters/delta_rows.h"
#include "adapters/names.h"
#include "tensor/convert.h"

namespace fulmar {
namespace {

std::vector<float> floats_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  return values;
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

class AdapterMerger {
 public:
  AdapterMerger(std::unique_ptr<Checkpoint> model, const Adapter& adapter, double strength)
      : model_(std::move(model)), adapter_(adapter), t_(static_cast<float>(strength)) {
    for (const Delta& delta : adapter.deltas) deltas_.emplace(delta.weight, &delta);
    for (const WholeTensor& whole : adapter.whole) whole_.emplace(whole.name, &whole);
  }

  Result<std::unique_ptr<Checkpoint>> run(const MergeOptions& options) {
    parts_.description =
        fmt::format("{}, merged with a {} adapter", model_->describe(), name_of(adapter_.form));
    parts_.metadata = model_->metadata();
    parts_.remarks = model_->remarks();
    if (model_->vocabulary() != nullptr) {
      parts_.vocabulary = std::shared_ptr<const StoredVocabulary>(model_, model_->vocabulary());
    }
    size_t done = 0;
    for (const StoredTensor& tensor : model_->tensors()) {
      FULMAR_TRY(add(tensor));
      const auto all = static_cast<double>(model_->tensors().size());
      if (options.progress) options.progress(static_cast<double>(++done) / all);
    }
    for (const WholeTensor& state : adapter_.states) {
      std::vector<float> values = state.value.floats();
      for (float& value : values) value *= t_;
      FULMAR_TRY(keep(state.value.stored(state.name), values));
    }
    parts_.owners.push_back(model_);
    return make_checkpoint(std::move(parts_));
  }

  // Returns |ΔW| / |W| where it is largest, and that weight.
  std::pair<double, std::string> largest_change() const { return largest_; }

 private:
  Status add(const StoredTensor& tensor) {
    if (is_state_name(tensor.name) && !adapter_.states.empty()) return {};  // the adapter's take its place
    const auto delta = deltas_.find(tensor.name);
    const auto whole = whole_.find(tensor.name);
    if (delta == deltas_.end() && whole == whole_.end()) {
      parts_.tensors.push_back(tensor);
      return {};
    }
    if (!is_kernel_float(tensor.dtype)) {
      return Error{
          ErrorKind::unsupported,
          fmt::format("'{}' is {}, which would be rounded twice; merge into the 16-bit model that it "
                      "was made from, then quantise that",
                      tensor.name, name_of(tensor.dtype))};
    }
    return delta == deltas_.end() ? replace(tensor, *whole->second) : change(tensor, *delta->second);
  }

  Status replace(const StoredTensor& tensor, const WholeTensor& whole) {
    std::vector<float> values = whole.value.floats();
    if (t_ != 1) {
      const std::vector<float> before = floats_of(tensor);
      for (size_t i = 0; i < values.size(); i++) values[i] = before[i] + t_ * (values[i] - before[i]);
    }
    return keep(tensor, values);
  }

  Status change(const StoredTensor& tensor, const Delta& delta) {
    const bool turned = is_input_major(tensor.name);
    const StoredTensor matrix = turned ? transposed(tensor) : tensor;
    const LinearShape shape{matrix.shape[0], matrix.shape[1]};
    std::vector<float> values = floats_of(matrix);
    const bool asked =
        adapter_.form == AdapterForm::rwkv_peft && delta.kind == DeltaKind::low_rank && t_ != 0;
    const std::vector<float> before = asked ? values : std::vector<float>();
    add_delta(delta, t_, shape, values);
    if (asked) note_change(before, values, tensor.name);
    model_->release_pages(tensor);
    if (!turned) return keep(tensor, values);
    StoredTensor view{tensor.name, DType::f32, matrix.shape, row_major_strides(matrix.shape),
                      reinterpret_cast<const std::byte*>(values.data())};
    return keep(tensor, floats_of(transposed(view)));
  }

  void note_change(const std::vector<float>& before, std::vector<float> after, const std::string& name) {
    for (size_t i = 0; i < after.size(); i++) after[i] = (after[i] - before[i]) / t_;
    const double share = norm_of(after) / std::max(norm_of(before), 1e-30);
    if (share > largest_.first) largest_ = {share, name};
  }

  // Adds a tensor with the shape and type of another and these numbers, rounded.
  Status keep(const StoredTensor& like, const std::vector<float>& values) {
    auto numbers = std::make_shared<HostTensor>(host_tensor(values, like.shape, like.dtype));
    const std::vector<float> rounded = numbers->floats();
    const auto wrong =
        std::find_if(rounded.begin(), rounded.end(), [](float x) { return !std::isfinite(x); });
    if (wrong != rounded.end()) {
      const auto index = static_cast<size_t>(wrong - rounded.begin());
      return Error{ErrorKind::invalid, fmt::format("'{}' becomes {} at element {}, which {} cannot hold",
                                                   like.name, values[index], index, name_of(like.dtype))};
    }
    parts_.tensors.push_back(numbers->stored(like.name));
    parts_.owners.push_back(std::move(numbers));
    return {};
  }

  std::shared_ptr<Checkpoint> model_;
  const Adapter& adapter_;
  const float t_;
  std::unordered_map<std::string_view, const Delta*> deltas_;
  std::unordered_map<std::string_view, const WholeTensor*> whole_;
  CheckpointParts parts_;
  std::pair<double, std::string> largest_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> merge_adapter(std::unique_ptr<Checkpoint> model, const Adapter& adapter,
                                                  const MergeOptions& options,
                                                  std::vector<std::string>* warnings) {
  constexpr double kLikelyPissa = 0.1;
  if (!std::isfinite(options.strength) || std::abs(options.strength) > kMostStrength) {
    return Error{ErrorKind::invalid, fmt::format("the strength is {}; wanted -{} to {}", options.strength,
                                                 kMostStrength, kMostStrength)};
  }
  AdapterMerger merger(std::move(model), adapter, options.strength);
  FULMAR_ASSIGN(auto merged, merger.run(options));
  const auto [share, weight] = merger.largest_change();
  if (share > kLikelyPissa && warnings != nullptr) {
    warnings->push_back(
        fmt::format("'{}' changes by {:.0f} % of its norm: a PiSSA adapter without its initial factors looks "
                    "like that",
                    weight, 100 * share));
  }
  return merged;
}

}  // namespace fulmar
