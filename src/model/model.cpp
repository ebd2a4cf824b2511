#include "model/model.h"

#include <algorithm>

#include "base/check.h"
#include "files/identify.h"
#include "model/bind.h"
#include "model/nonfinite.h"
#include "model/rwkv6.h"
#include "model/rwkv7.h"

namespace fulmar {

namespace {

constexpr int64_t kMostRows = 65536;
constexpr int64_t kRowGrain = 64;  // backends pad a step's rows up to a multiple of at most this

int64_t padded_rows(int64_t rows) { return (rows + kRowGrain - 1) / kRowGrain * kRowGrain; }

int64_t wanted_rows(const LoadOptions& options) {
  return options.max_wanted > 0 ? std::min(options.max_wanted, options.max_rows) : options.max_rows;
}

// Upper bound of what any default island takes at once.
size_t scratch_bytes(const ModelConfig& config, int64_t rows) {
  const int64_t c = config.n_embd, f = config.n_ffn, d = config.deep_embed_rank;
  const int64_t ranks =
      config.rank_w + config.rank_a + config.rank_v + config.rank_g + 5 * config.rank_mix + config.rank_decay;
  const int64_t deep = d > 0 ? c + f + d * d + 2 * d : 0;
  constexpr size_t kPieces = 16, kAlignment = 64;
  return static_cast<size_t>(rows * (4 * c + f + ranks + deep)) * sizeof(float) + kPieces * kAlignment;
}

// That, or what a device's sampler works on: copies of the logits of so many rows.
size_t scratch_of(const ModelConfig& config, const Ops& ops, int64_t rows, int64_t wanted) {
  constexpr int64_t kDrawnAtOnce = 256;
  const int64_t drawn = ops.borrows_host_weights() ? 0 : std::min(wanted, kDrawnAtOnce);
  return std::max(scratch_bytes(config, rows), static_cast<size_t>(drawn * config.vocab) * sizeof(float));
}

// Matrices that a borrowing backend uses where they lie: rows of `out` channels, in a type it can read.
bool borrowable(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.contiguous() && tensor.name.ends_with(".weight") &&
         tensor.dtype != DType::f64;
}

size_t imported_bytes(const Checkpoint& checkpoint, const Ops& ops) {
  size_t bytes = 0;
  for (const StoredTensor& tensor : checkpoint.tensors()) {
    if (ops.borrows_host_weights() && borrowable(tensor)) continue;
    const bool vector = !tensor.shape.empty() && tensor.shape.back() == tensor.count();
    const bool gathered = tensor.name.ends_with("emb.weight");
    const auto role = gathered ? WeightRole::embedding : WeightRole::projection;
    const DType kept = vector ? DType::f32 : ops.imported_dtype(tensor.dtype, role);
    bytes += bytes_for(kept, tensor.count());
  }
  return bytes;
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

template <class Version>
Result<std::unique_ptr<Model>> bind_as(Binder& binder, int64_t rows,
                                       const std::function<void(int64_t)>& loaded) {
  FULMAR_ASSIGN(std::unique_ptr<Version> model, Version::bind(binder, rows, loaded));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace

StateLayout state_layout_of(const ModelConfig& config, const Ops& ops) {
  return {config.n_layer, config.n_embd, config.n_head, config.head_size, ops.shift_dtype(), ops.wkv_dtype()};
}

MemoryPlan plan_memory(const Checkpoint& checkpoint, const ModelConfig& config, const Ops& ops,
                       const LoadOptions& options) {
  const int64_t rows = padded_rows(options.max_rows), wanted = padded_rows(wanted_rows(options));
  const int64_t activations = config.version == 7 ? 16 : 11;  // beside the residual stream
  const size_t activation = size_of(ops.activation_dtype());
  const auto width = static_cast<size_t>(config.n_embd), vocab = static_cast<size_t>(config.vocab);
  const size_t per_row =
      width * (size_of(ops.residual_dtype()) + static_cast<size_t>(activations) * activation);
  const size_t per_wanted = width * activation + vocab * sizeof(float);
  return {.weights = imported_bytes(checkpoint, ops),
          .workspace = static_cast<size_t>(rows) * per_row + static_cast<size_t>(wanted) * per_wanted +
                       scratch_of(config, ops, rows, wanted),
          .per_slot = state_layout_of(config, ops).slot_bytes(),
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
  const MemoryPlan plan = plan_memory(*checkpoint, config, ops, options);
  FULMAR_TRY(check_memory(plan, ops));
  if (!options.allow_nonfinite) FULMAR_TRY(check_finite(*checkpoint));

  const auto report = [&](double fraction) {
    if (options.progress) options.progress(fraction);
  };
  report(0);
  const int64_t rows = padded_rows(options.max_rows);
  const auto loaded = [&](int64_t layers) {
    report(static_cast<double>(layers) / static_cast<double>(config.n_layer + 1));
  };
  Binder binder(*checkpoint, config, ops);
  FULMAR_ASSIGN(std::unique_ptr<Model> model, config.version == 7 ? bind_as<Rwkv7>(binder, rows, loaded)
                                                                  : bind_as<Rwkv6>(binder, rows, loaded));
  const int64_t wanted = padded_rows(wanted_rows(options));
  model->buffers_.declare(model->hidden_, wanted, config.n_embd, ops.activation_dtype());
  model->buffers_.declare(model->logits_, wanted, config.vocab, DType::f32);
  FULMAR_TRY(model->buffers_.place(ops));
  FULMAR_TRY(ops.reserve_scratch(scratch_of(config, ops, rows, wanted)));
  ops.synchronise();
  model->checkpoint_ = std::move(checkpoint);
  model->fingerprint_ = binder.fingerprint();
  model->memory_ = plan;
  model->max_rows_ = options.max_rows;
  model->max_wanted_ = wanted_rows(options);
  report(1);
  return model;
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
