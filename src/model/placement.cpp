#include "model/placement.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>

#include "model/bind.h"

namespace fulmar {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Returns the number of the block that a tensor belongs to; -1: none.
int64_t block_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blocks.";
  if (!name.starts_with(kPrefix)) return -1;
  name.remove_prefix(kPrefix.size());
  int64_t number = -1;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

// Returns sums over layers, so that the sum over a range is one subtraction.
template <class T>
std::vector<T> running_sums(const std::vector<T>& values) {
  std::vector<T> sums(1, T());
  for (const T& value : values) sums.push_back(sums.back() + value);
  return sums;
}

class LayerSplitter {
 public:
  LayerSplitter(const PartSizes& sizes, std::span<const StageRoom> devices, bool by_memory)
      : sizes_(sizes), devices_(devices), by_memory_(by_memory), work_(running_sums(sizes.layers)) {
    for (const StageRoom& device : devices) bytes_.push_back(running_sums(device.layers));
  }

  // Returns the best split; empty where none fits.
  std::vector<LayerRange> best() {
    const size_t layers = sizes_.layers.size(), count = devices_.size();
    // slowest[d][l]: of the devices up to d when they have the layers below l; from[d][l]: where d begins.
    std::vector<std::vector<double>> slowest(count, std::vector<double>(layers + 1, kNever));
    std::vector<std::vector<size_t>> from(count, std::vector<size_t>(layers + 1, 0));
    for (size_t d = 0; d < count; d++) {
      for (size_t last = d + 1; last <= layers; last++) {
        for (size_t first = d == 0 ? 0 : d; first < (d == 0 ? 1 : last); first++) {
          const double before = d == 0 ? 0 : slowest[d - 1][first];
          const double time = std::max(before, seconds(d, first, last));
          if (time >= slowest[d][last]) continue;
          slowest[d][last] = time;
          from[d][last] = first;
        }
      }
    }
    if (slowest.back()[layers] == kNever) return {};
    std::vector<LayerRange> ranges(count);
    for (size_t d = count, last = layers; d-- > 0; last = from[d][last]) {
      ranges[d] = {static_cast<int64_t>(from[d][last]), static_cast<int64_t>(last)};
    }
    return ranges;
  }

 private:
  double seconds(size_t d, size_t first, size_t last) const {
    const StageRoom& device = devices_[d];
    const bool ends = d + 1 == devices_.size();
    if (ends != (last == sizes_.layers.size())) return kNever;
    const size_t bytes = device.fixed + (d == 0 ? device.embedding : 0) + (ends ? device.head : 0) +
                         bytes_[d][last] - bytes_[d][first];
    if (by_memory_ && bytes > device.free) return kNever;
    return (work_[last] - work_[first] + (ends ? sizes_.head : 0)) / device.speed;
  }

  const PartSizes& sizes_;
  const std::span<const StageRoom> devices_;
  const bool by_memory_;
  const std::vector<double> work_;
  std::vector<std::vector<size_t>> bytes_;
};

// Returns how fast each device reads memory; 1, without measuring, where all are of one kind.
Result<std::vector<double>> speeds_of(std::span<Ops* const> devices) {
  const auto kind = [](const Ops* ops) { return ops->traits().kind; };
  std::vector<double> speeds(devices.size(), 1);
  const bool alike = std::all_of(devices.begin(), devices.end(),
                                 [&](const Ops* ops) { return kind(ops) == kind(devices.front()); });
  if (alike) return speeds;
  for (size_t i = 0; i < devices.size(); i++) {
    FULMAR_ASSIGN(const Ceilings ceilings, devices[i]->measure_ceilings());
    if (ceilings.read_gbs > 0) speeds[i] = ceilings.read_gbs;
  }
  return speeds;
}

// Returns the memory that the parts of a model take on a device, by a dry run of all of them.
Result<StageRoom> room_on(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                          const LoadOptions& options, const Slice& slice) {
  StageRoom room;
  Binder binder(checkpoint, config, ops, nullptr, slice);
  Buffers buffers;
  const StepShape shape = step_shape(config, options);
  std::vector<size_t> bound;
  FULMAR_ASSIGN(const auto stack, Stack::bind(binder, buffers, shape.rows, {0, config.n_layer},
                                              [&](int64_t) { bound.push_back(binder.bytes()); }));
  const StateLayout layout = layout_of(state_layout_of(config, ops), config.n_layer, slice);
  const State slot{nullptr, 1, layout, ring_layout_of(config, ops, ops.state_writes())};
  const size_t state =
      (slot.layout.layer_bytes() + slot.ring_layer_bytes()) * static_cast<size_t>(options.slots);
  for (size_t l = 0; l + 1 < bound.size(); l++) room.layers.push_back(bound[l + 1] - bound[l] + state);
  Buffers last;
  Outputs outputs;
  declare_outputs(last, shape, ops, slice, outputs);
  room.embedding = bound.front();
  room.head = binder.bytes() - bound.back() + last.bytes();
  const CollectiveOptions together = collective_options(config, shape, options);
  room.fixed = buffers.bytes() + ops.workspace_bytes(shape) +
               (slice.whole() ? 0 : ops.collective_bytes(slice.count, together)) +
               static_cast<size_t>(Channel::kMostUnderWay) * stream_bytes(config, shape, ops);
  room.free = ops.memory_free();
  return room;
}

}  // namespace

PartSizes part_sizes(const Checkpoint& checkpoint, const ModelConfig& config) {
  PartSizes sizes;
  sizes.layers.resize(static_cast<size_t>(config.n_layer));
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    const int64_t block = block_of(tensor.name);
    if (block >= 0 && block < config.n_layer) {
      sizes.layers[static_cast<size_t>(block)] += static_cast<double>(tensor.bytes());
    }
    if (tensor.name == "head.weight") sizes.head = static_cast<double>(tensor.bytes());
  }
  return sizes;
}

Result<std::vector<LayerRange>> split_layers(const PartSizes& sizes, std::span<const StageRoom> devices) {
  if (devices.empty() || sizes.layers.size() < devices.size()) {
    return Error{ErrorKind::invalid, "a model of " + std::to_string(sizes.layers.size()) +
                                         " layers cannot be spread over " + std::to_string(devices.size()) +
                                         " devices; wanted at least one layer for each"};
  }
  const std::vector<LayerRange> ranges = LayerSplitter(sizes, devices, true).best();
  return ranges.empty() ? LayerSplitter(sizes, devices, false).best() : ranges;
}

Result<std::vector<LayerRange>> ranges_of(std::span<const int64_t> counts, int64_t devices, int64_t layers) {
  std::vector<LayerRange> ranges;
  int64_t next = 0;
  std::string text;
  bool fits = static_cast<int64_t>(counts.size()) == devices;
  for (const int64_t count : counts) {
    fits = fits && count >= 1 && count <= layers - next;
    text += (text.empty() ? "" : ",") + std::to_string(count);
    if (!fits) continue;
    ranges.push_back({next, next + count});
    next += count;
  }
  if (fits && next == layers) return ranges;
  return Error{ErrorKind::invalid, "the layers are split as " + text + "; wanted " + std::to_string(devices) +
                                       " numbers of at least 1, " + std::to_string(layers) + " together"};
}

Result<std::vector<Placed>> place_layers(const Checkpoint& checkpoint, const ModelConfig& config,
                                         std::span<Ops* const> devices, std::span<const int64_t> counts,
                                         const LoadOptions& options, int64_t slices) {
  FULMAR_TRY(check_slices(config, slices));
  if (static_cast<int64_t>(devices.size()) % slices != 0) {
    return Error{ErrorKind::invalid, std::to_string(devices.size()) + " devices do not make stages of " +
                                         std::to_string(slices) + " tensor-parallel devices each"};
  }
  std::vector<Ops*> firsts;
  for (size_t i = 0; i < devices.size(); i += static_cast<size_t>(slices)) firsts.push_back(devices[i]);
  std::vector<LayerRange> ranges{{0, config.n_layer}};
  if (!counts.empty()) {
    FULMAR_ASSIGN(ranges, ranges_of(counts, static_cast<int64_t>(firsts.size()), config.n_layer));
  } else if (firsts.size() > 1) {
    FULMAR_ASSIGN(const std::vector<double> speeds, speeds_of(firsts));
    std::vector<StageRoom> rooms;
    for (size_t i = 0; i < firsts.size(); i++) {
      FULMAR_ASSIGN(StageRoom room, room_on(checkpoint, config, *firsts[i], options, {0, slices}));
      room.speed = speeds[i];
      const auto gpu = firsts[i]->traits().gpu;
      room.free /= static_cast<size_t>(std::count_if(
          devices.begin(), devices.end(), [&](const Ops* other) { return other->traits().gpu == gpu; }));
      rooms.push_back(std::move(room));
    }
    FULMAR_ASSIGN(ranges, split_layers(part_sizes(checkpoint, config), rooms));
  }
  std::vector<Placed> placed;
  for (size_t i = 0; i < devices.size(); i++) {
    const auto at = static_cast<int64_t>(i);
    placed.push_back({devices[i], ranges[static_cast<size_t>(at / slices)], {at % slices, slices}});
  }
  return placed;
}

}  // namespace fulmar
