#include "model/model.h"

#include <algorithm>

#include "base/check.h"
#include "files/identify.h"
#include "model/bind.h"
#include "model/nonfinite.h"

namespace fulmar {

namespace {

constexpr int64_t kMostRows = 65536;
constexpr int64_t kRowGrain = 64;  // backends pad a step's rows up to a multiple of at most this

int64_t padded_rows(int64_t rows) { return (rows + kRowGrain - 1) / kRowGrain * kRowGrain; }

int64_t wanted_rows(const LoadOptions& options) {
  return options.max_wanted > 0 ? std::min(options.max_wanted, options.max_rows) : options.max_rows;
}

StepShape step_shape(const ModelConfig& config, const LoadOptions& options) {
  return {.rows = padded_rows(options.max_rows),
          .wanted = padded_rows(wanted_rows(options)),
          .n_embd = config.n_embd,
          .n_ffn = config.n_ffn,
          .vocab = config.vocab,
          .low_ranks = config.rank_w + config.rank_a + config.rank_v + config.rank_g + 5 * config.rank_mix +
                       config.rank_decay,
          .deep_rank = config.deep_embed_rank};
}

std::string mebibytes(size_t bytes) { return std::to_string(bytes / (1024 * 1024)) + " MiB"; }

Status check_options(const LoadOptions& options) {
  if (options.max_rows >= 1 && options.max_rows <= kMostRows) return {};
  return Error{ErrorKind::invalid, "max_rows is " + std::to_string(options.max_rows) + "; wanted 1 to " +
                                       std::to_string(kMostRows)};
}

Status check_memory(const MemoryPlan& plan, const Ops& ops) {
  const size_t free = ops.memory_free();
  if (plan.slots <= most_slots(plan, free)) return {};
  std::string parts = mebibytes(plan.weights) + " weights, " + mebibytes(plan.workspace) + " workspace";
  if (plan.slots > 0) {
    parts +=
        ", " + std::to_string(plan.slots) + " states of " + std::to_string(plan.per_slot / 1024) + " KiB";
  }
  return Error{ErrorKind::resource, "the model needs " + mebibytes(plan.total()) + " (" + parts + "); " +
                                        ops.name() + " has " + mebibytes(free) + " free"};
}

Status check_finite(const Checkpoint& checkpoint) {
  const auto found = first_nonfinite(checkpoint);
  if (!found) return {};
  return Error{ErrorKind::corrupt, "tensor '" + found->tensor + "' holds " + std::string(found->what) +
                                       " at element " + std::to_string(found->index)};
}

void declare_outputs(Buffers& buffers, const StepShape& shape, const Ops& ops, Tensor& hidden,
                     Tensor& logits) {
  buffers.declare(hidden, shape.wanted, shape.n_embd, ops.activation_dtype());
  buffers.declare(logits, shape.wanted, shape.vocab, DType::f32);
}

}  // namespace

StateLayout state_layout_of(const ModelConfig& config, const Ops& ops) {
  return {config.n_layer, config.n_embd, config.n_head, config.head_size, ops.shift_dtype(), ops.wkv_dtype()};
}

RingLayout ring_layout_of(const ModelConfig& config, const Ops& ops, const StateWrites& writes) {
  if (!ops.replays(config.head_size)) return {};
  return ring_layout(writes, config.version, ops.activation_dtype());
}

Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                               const LoadOptions& options) {
  const StepShape shape = step_shape(config, options);
  Binder binder(checkpoint, config, ops, Binder::Mode::dry);
  Buffers buffers;
  FULMAR_ASSIGN(const auto stack, Stack::bind(binder, buffers, shape.rows, [](int64_t) {}));
  Tensor hidden, logits;
  declare_outputs(buffers, shape, ops, hidden, logits);
  const State slot{nullptr, 1, state_layout_of(config, ops), ring_layout_of(config, ops, ops.state_writes())};
  return MemoryPlan{.weights = binder.bytes(),
                    .workspace = buffers.bytes() + ops.workspace_bytes(shape),
                    .per_slot = slot.slot_stride(),
                    .slots = options.slots};
}

int64_t most_slots(const MemoryPlan& plan, size_t free) {
  const size_t model = plan.weights + plan.workspace;
  if (model > free) return -1;
  return static_cast<int64_t>((free - model) / plan.per_slot);
}

Result<std::unique_ptr<Model>> Model::load(std::unique_ptr<Checkpoint> checkpoint, Ops& ops,
                                           const LoadOptions& options) {
  FULMAR_TRY(check_options(options));
  FULMAR_ASSIGN(const ModelConfig config, identify(*checkpoint));
  FULMAR_ASSIGN(const MemoryPlan plan, plan_memory(*checkpoint, config, ops, options));
  FULMAR_TRY(check_memory(plan, ops));
  if (!options.allow_nonfinite) FULMAR_TRY(check_finite(*checkpoint));

  const auto report = [&](double fraction) {
    if (options.progress) options.progress(fraction);
  };
  report(0);
  const auto loaded = [&](int64_t layers) {
    report(static_cast<double>(layers) / static_cast<double>(config.n_layer + 1));
  };
  const StepShape shape = step_shape(config, options);
  Binder binder(*checkpoint, config, ops);
  std::unique_ptr<Model> model(new Model(config, ops));
  FULMAR_ASSIGN(model->stack_, Stack::bind(binder, model->buffers_, shape.rows, loaded));
  declare_outputs(model->buffers_, shape, ops, model->hidden_, model->logits_);
  FULMAR_TRY(model->buffers_.place(ops));
  FULMAR_TRY(ops.reserve_scratch(ops.workspace_bytes(shape)));
  ops.synchronise();
  model->checkpoint_ = std::move(checkpoint);
  model->fingerprint_ = binder.fingerprint();
  model->memory_ = plan;
  model->max_rows_ = options.max_rows;
  model->max_wanted_ = wanted_rows(options);
  report(1);
  return model;
}

void Model::step(const Batch& batch, const State& state, Tensor hidden, Tensor logits) {
  Stream stream = stack_->embed(batch);
  stack_->layers(batch, state, 0, stack_->n_layer(), stream);
  if (batch.wanted > 0) stack_->head(batch, stream, hidden, logits);
}

Tensor Model::forward(const StepInput& input, const State& state) {
  const auto rows = static_cast<int64_t>(input.token.size());
  wanted_ = static_cast<int64_t>(input.wanted.size());
  FULMAR_CHECK(rows >= 1 && rows <= max_rows_ && wanted_ <= logits_.rows);
  const Batch batch = ops_.begin_step(input, state);
  FULMAR_CHECK(batch.rows <= padded_rows(max_rows_) && batch.wanted <= logits_.rows);
  const Tensor hidden = hidden_.slice_rows(0, batch.wanted);
  const Tensor logits = logits_.slice_rows(0, batch.wanted);
  ops_.run_step(batch, [&] { step(batch, state, hidden, logits); });
  return logits_.slice_rows(0, wanted_);
}

}  // namespace fulmar
