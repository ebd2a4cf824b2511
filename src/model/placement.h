// Pipeline parallelism: which layers of a model are on which of several devices. Pure functions over sizes
// and speeds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/memory_plan.h"

namespace fulmar {

// Bytes of a model's parts as stored: proportional to their time in a step of few rows.
struct PartSizes {
  double head = 0;
  std::vector<double> layers;
};
PartSizes part_sizes(const Checkpoint& checkpoint, const ModelConfig& config);

// One device, as split_layers sees it. Memory in bytes.
struct StageRoom {
  double speed = 1;  // bytes of parts per second, in any unit common to all devices
  size_t free = 0;
  size_t fixed = 0;            // in any case, with any layers
  size_t embedding = 0;        // in addition, on the first device
  size_t head = 0;             // in addition, on the last device
  std::vector<size_t> layers;  // each layer with its part of all states
};

// Returns the split, in order and with at least one layer per device, whose slowest device is fastest: among
// the splits that fit the memory, or among all where none fits. Fails (invalid) with fewer layers than
// devices.
Result<std::vector<LayerRange>> split_layers(const PartSizes& sizes, std::span<const StageRoom> devices);

// Returns the ranges of the given numbers of layers; fails (invalid) unless there is one per device and they
// add up to all layers.
Result<std::vector<LayerRange>> ranges_of(std::span<const int64_t> counts, int64_t devices, int64_t layers);

// Places a model on devices. Each `slices` consecutive devices are the ranks of one stage; the first stands
// for all of them. Layers are split by `counts` if given, else by split_layers with each device's memory, and
// its speed where the devices differ in kind. Fails (invalid) where the devices do not make whole stages, or
// the model does not divide into this many slices.
Result<std::vector<Placed>> place_layers(const Checkpoint& checkpoint, const ModelConfig& config,
                                         std::span<Ops* const> devices, std::span<const int64_t> counts,
                                         const LoadOptions& options, int64_t slices = 1);

}  // namespace fulmar
