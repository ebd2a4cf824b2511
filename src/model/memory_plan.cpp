#include "model/memory_plan.h"

#include <algorithm>

#include "files/versions.h"
#include "model/bind.h"
#include "model/block_kind.h"

namespace fulmar {

namespace {

constexpr int64_t kMostRows = 65536;
constexpr int64_t kRowGrain = 64;  // backends pad a step's rows to multiples of this at most

int64_t padded_rows(int64_t rows) { return (rows + kRowGrain - 1) / kRowGrain * kRowGrain; }

std::string mebibytes(size_t bytes) { return std::to_string(bytes / (1024 * 1024)) + " MiB"; }

std::string parts_of(const MemoryPlan& plan) {
  std::string parts = mebibytes(plan.weights) + " weights, " + mebibytes(plan.workspace) + " workspace";
  if (plan.slots == 0) return parts;
  return parts + ", " + std::to_string(plan.slots) + " states of " + std::to_string(plan.per_slot / 1024) +
         " KiB";
}

Result<MemoryPlan> plan_stage(const Checkpoint& checkpoint, const ModelConfig& config, const Placed& stage,
                              const LoadOptions& options) {
  const StepShape shape = step_shape(config, options);
  Ops& ops = *stage.ops;
  Binder binder(checkpoint, config, ops, nullptr, stage.slice);
  Buffers buffers;
  FULMAR_ASSIGN(const auto stack, Stack::bind(binder, buffers, shape.rows, stage.layers, [](int64_t) {}));
  Outputs outputs;
  if (stack->reads_out()) declare_outputs(buffers, shape, ops, stage.slice, outputs);
  size_t received =
      stack->embeds() ? 0 : static_cast<size_t>(Channel::kMostUnderWay) * stream_bytes(config, shape, ops);
  if (!stage.slice.whole()) {
    received += ops.collective_bytes(stage.slice.count, collective_options(config, shape, options));
  }
  const StateLayout layout = layout_of(state_layout_of(config, ops), stage.layers.count(), stage.slice);
  const State slot{nullptr, 1, layout, ring_layout_of(config, ops, ops.state_writes())};
  return MemoryPlan{.weights = binder.bytes(),
                    .workspace = buffers.bytes() + ops.workspace_bytes(shape) + received,
                    .per_slot = slot.slot_stride(),
                    .slots = options.slots};
}

// Returns text like "cuda:0 (...) needs 9 MiB for layers 0 to 15 (...)".
std::string need_of(const StagePlan& stage, bool whole) {
  std::string text = mebibytes(stage.memory.total());
  if (!whole) {
    text +=
        " for layers " + std::to_string(stage.layers.first) + " to " + std::to_string(stage.layers.last - 1);
  }
  if (!stage.slice.whole()) {
    text += ", slice " + std::to_string(stage.slice.index + 1) + " of " + std::to_string(stage.slice.count);
  }
  return text + " (" + parts_of(stage.memory) + ")";
}

}  // namespace

Status check_options(const LoadOptions& options) {
  if (options.max_rows >= 1 && options.max_rows <= kMostRows) return {};
  return Error{ErrorKind::invalid, "max_rows is " + std::to_string(options.max_rows) + "; wanted 1 to " +
                                       std::to_string(kMostRows)};
}

int64_t wanted_rows(const LoadOptions& options) {
  return options.max_wanted > 0 ? std::min(options.max_wanted, options.max_rows) : options.max_rows;
}

StepShape step_shape(const ModelConfig& config, const LoadOptions& options) {
  return {.rows = padded_rows(options.max_rows),
          .wanted = padded_rows(wanted_rows(options)),
          .n_embd = config.n_embd,
          .n_ffn = config.n_ffn,
          .vocab = config.vocab,
          .low_ranks = low_ranks(config),
          .deep_rank = config.deep_embed_rank};
}

StateLayout state_layout_of(const ModelConfig& config, const Ops& ops) {
  return {config.n_layer,           config.n_embd,     config.n_head,
          config.head_size,         ops.shift_dtype(), ops.wkv_dtype(),
          block_kind(config).fields};
}

RingLayout ring_layout_of(const ModelConfig& config, const Ops& ops, const StateWrites& writes) {
  if (!ops.replays(config.head_size)) return {};
  return ring_layout(writes, block_kind(config).kept, ops.activation_dtype());
}

size_t stream_bytes(const ModelConfig& config, const StepShape& shape, const Ops& ops) {
  const auto width = static_cast<size_t>(config.n_embd), rows = static_cast<size_t>(shape.rows);
  const size_t values =
      block_kind(config).needs_first_values ? rows * size_of(ops.activation_dtype()) + sizeof(float) : 0;
  return width * (rows * size_of(ops.residual_dtype()) + values);
}

CollectiveOptions collective_options(const ModelConfig& config, const StepShape& shape,
                                     const LoadOptions& options) {
  return {shape.rows, config.n_embd, options.collective_timeout};
}

void declare_outputs(Buffers& buffers, const StepShape& shape, const Ops& ops, const Slice& slice,
                     Outputs& outputs) {
  buffers.declare(outputs.hidden, shape.wanted, shape.n_embd, ops.activation_dtype());
  if (slice.index == 0) buffers.declare(outputs.logits, shape.wanted, shape.vocab, DType::f32);
  if (slice.whole()) return;
  const Part part = vocabulary_part(slice, shape.vocab);
  outputs.part_first = part.first;
  buffers.declare(outputs.part, shape.wanted, part.count, DType::f32);
}

Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                               const LoadOptions& options) {
  return plan_stage(checkpoint, config, {&ops, {0, config.n_layer}}, options);
}

Result<std::vector<StagePlan>> plan_stages(const Checkpoint& checkpoint, const ModelConfig& config,
                                           std::span<const Placed> stages, const LoadOptions& options) {
  std::vector<StagePlan> plans;
  for (const Placed& stage : stages) {
    FULMAR_ASSIGN(const MemoryPlan memory, plan_stage(checkpoint, config, stage, options));
    plans.push_back({stage.ops->name(), stage.ops->traits().gpu, stage.layers, stage.slice, memory,
                     stage.ops->memory_free()});
  }
  return plans;
}

int64_t most_slots(const MemoryPlan& plan, size_t free) {
  const size_t model = plan.weights + plan.workspace;
  if (model > free) return -1;
  return static_cast<int64_t>((free - model) / plan.per_slot);
}

Status check_memory(std::span<const StagePlan> stages) {
  const bool whole = stages.size() == 1;
  std::string text;
  bool fits = true;
  for (const StagePlan& stage : stages) {
    size_t together = 0;
    for (const StagePlan& other : stages) together += other.gpu == stage.gpu ? other.memory.total() : 0;
    fits = fits && together <= stage.free;
    text += (text.empty() ? "" : "; ") + need_of(stage, whole) + "; " + stage.device + " has " +
            mebibytes(stage.free) + " free";
  }
  if (fits) return {};
  return Error{ErrorKind::resource, "the model needs " + text};
}

}  // namespace fulmar
