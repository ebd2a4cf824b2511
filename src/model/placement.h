// Pipeline parallelism: which layers of a model lie on which of several devices. Pure functions over sizes
// and speeds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/memory_plan.h"

namespace fulmar {

// Bytes of a model's parts as they are stored: what a step of few rows takes the time to read.
struct PartSizes {
  double head = 0;
  std::vector<double> layers;
};
PartSizes part_sizes(const Checkpoint& checkpoint, const ModelConfig& config);

// One device as far as a split depends on it. Memory in bytes.
struct StageRoom {
  double speed = 1;  // parts per second, in any unit that all devices share
  size_t free = 0;
  size_t fixed = 0;            // taken whatever layers it has
  size_t embedding = 0;        // by the first device, besides
  size_t head = 0;             // by the last one, besides
  std::vector<size_t> layers;  // by each layer with its part of all states
};

// At least one layer for each device, in order: the split whose slowest device is the fastest among those
// that fit the memory; among all splits where none fits. Fails (invalid) with fewer layers than devices.
Result<std::vector<LayerRange>> split_layers(const PartSizes& sizes, std::span<const StageRoom> devices);

// Numbers of layers given by hand, which must be one for each device and add up to all: else invalid.
Result<std::vector<LayerRange>> ranges_of(std::span<const int64_t> counts, int64_t devices, int64_t layers);

// Places a model on devices. Each `slices` of them that follow one another are the ranks of one stage; the
// first stands for all of them. Layers are split by `counts` where there are any, else by split_layers with
// each device's memory, and its speed where the devices are not all of one kind. Fails (invalid) where the
// devices do not make whole stages, or the model does not divide into so many slices.
Result<std::vector<Placed>> place_layers(const Checkpoint& checkpoint, const ModelConfig& config,
                                         std::span<Ops* const> devices, std::span<const int64_t> counts,
                                         const LoadOptions& options, int64_t slices = 1);

}  // namespace fulmar
