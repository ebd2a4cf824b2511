#include "gpu/step_deltas.h"

#include <algorithm>

#include "ops/batch.h"

namespace fulmar::gpu {

Result<std::vector<DeviceDelta>> StepDeltaRows::table_of(const DeltaSet& deltas) {
  for (const auto& [data, delta] : deltas.of) {
    if (!delta.input_gain.empty() || !delta.blocks.empty()) {
      return Error{ErrorKind::unsupported,
                   device_.name() +
                       " computes no changes of a matrix's inputs (DoRA by inputs, Bat) beside a "
                       "model; merge the adapter"};
    }
    if (delta.rank > kMostRank) {
      return Error{ErrorKind::unsupported, "the adapter has rank " + std::to_string(delta.rank) +
                                               "; wanted at most " + std::to_string(kMostRank)};
    }
    if (!known_.emplace(data, static_cast<int>(of_wanted_.size())).second) continue;
    of_wanted_.push_back(delta.of_wanted);
  }
  std::vector<DeviceDelta> table(of_wanted_.size());
  for (const auto& [data, delta] : deltas.of) {
    table[static_cast<size_t>(known_.at(data))] = {
        delta.down.data,
        delta.up.data,
        delta.gain.as<float>(),
        delta.first_input,
        static_cast<int32_t>(delta.rank),
        delta.scale,
        delta_type(delta.down.dtype),
        delta_type(delta.up.dtype),
    };
  }
  return table;
}

void StepDeltaRows::add(const std::vector<DeltaRows>& ranges) {
  for (const DeltaRows& range : ranges) {
    const Buffer& table = range.by.deltas->tables.at(&device_);
    const auto entries = static_cast<int32_t>(table.bytes() / sizeof(DeviceDelta));
    for (int64_t row = range.first; row < range.first + range.count; row++) {
      rows_.push_back({static_cast<const DeviceDelta*>(table.data()), entries, static_cast<int32_t>(row),
                       range.by.scale});
    }
  }
}

bool StepDeltaRows::begin(const StepInput& input) {
  rows_.clear();
  if (input.deltas.empty()) return false;
  const StepDeltas step = deltas_of(input);
  changed_.assign(of_wanted_.size(), false);
  most_rank_ = 0;
  const DeltaSet* last = nullptr;
  for (const DeltaRows& range : step.packed) {
    if (range.by.deltas == last) continue;
    last = range.by.deltas;
    for (const auto& [data, delta] : last->of) {
      changed_[static_cast<size_t>(known_.at(data))] = true;
      most_rank_ = std::max(most_rank_, delta.rank);
    }
  }
  add(step.packed);
  packed_ = rows_.size();
  add(step.wanted);
  return !rows_.empty();
}

int StepDeltaRows::number_of(const Weight& weight) const {
  const auto known = known_.find(weight.data);
  if (known == known_.end() || !changed_[static_cast<size_t>(known->second)]) return -1;
  return known->second;
}

DeltaRowList StepDeltaRows::list(int number) const {
  const auto packed = static_cast<int64_t>(packed_), all = static_cast<int64_t>(rows_.size());
  if (of_wanted_[static_cast<size_t>(number)]) return {device_rows_ + packed_, all - packed, most_rank_};
  return {device_rows_, packed, most_rank_};
}

}  // namespace fulmar::gpu
