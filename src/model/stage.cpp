#include "model/stage.h"

#include "base/check.h"
#include "model/bind.h"

namespace fulmar {

Result<std::unique_ptr<Stage>> Stage::load(const Source& source, Rank& rank, LayerRange layers,
                                           const Slice& slice) {
  Ops& ops = rank.ops();
  const StepShape& shape = source.shape;
  Binder binder(source.checkpoint, source.config, ops, &source.fingerprint, slice);
  std::unique_ptr<Stage> stage(new Stage(rank));
  FULMAR_ASSIGN(stage->stack_, Stack::bind(binder, stage->buffers_, shape.rows, layers, source.loaded));
  stage->copies_ = binder.take_copies();
  stage->bound_ = binder.take_bound();
  if (stage->stack_->reads_out()) declare_outputs(stage->buffers_, shape, ops, slice, stage->outputs_);
  FULMAR_TRY(stage->buffers_.place(ops));
  FULMAR_TRY(ops.reserve_scratch(ops.workspace_bytes(shape)));
  ops.synchronise();
  stage->most_rows_ = shape.rows;
  return stage;
}

void Stage::connect(Channel* before, Channel* behind, bool lone) {
  before_ = before;
  behind_ = behind;
  lone_ = lone;
}

std::vector<Tensor> Stage::message(const Stream& stream, int64_t rows) const {
  std::vector<Tensor> tensors{stream.x.slice_rows(0, rows)};
  if (!stream.v_first.empty()) tensors.push_back(stream.v_first.slice_rows(0, rows));
  if (rows == 1 && lone_ && !stream.v_first_wide.empty()) tensors.push_back(stream.v_first_wide);
  return tensors;
}

void Stage::share_with(Collective* ranks) {
  ranks_ = ranks;
  stack_->share_with(ranks);
}

Status Stage::add_deltas(std::span<const HostDelta> deltas, DeviceAdapter& adapter) {
  for (const HostDelta& delta : deltas) {
    const auto matrix = bound_.find(delta.matrix);
    if (matrix == bound_.end()) continue;
    FULMAR_TRY(adapter.add(delta, matrix->second, slice(), rank_.ops()));
  }
  return adapter.index(rank_.ops());
}

bool Stage::binds(const std::string& matrix) const { return bound_.contains(matrix); }

void Stage::check() const {
  if (ranks_ != nullptr) ranks_->check();
}

void Stage::compute(const Batch& batch, const State& state, Stream stream) {
  if (stack_->embeds()) stack_->embed(batch, stream);
  stack_->layers(batch, state, stack_->held(), stream);
  if (!stack_->reads_out()) return stack_->absorb(stream);
  if (batch.wanted > 0) read_out(batch, stream);
}

// Computes the logits; each slice computes and keeps those of its part of the vocabulary.
void Stage::read_out(const Batch& batch, const Stream& stream) {
  const Tensor& own = ranks_ == nullptr ? outputs_.logits : outputs_.part;
  stack_->head(batch, stream, hidden(batch.wanted), own.slice_rows(0, batch.wanted));
}

void Stage::gather(int64_t wanted) {
  ranks_->gather(part(wanted), outputs_.part_first, outputs_.logits.empty() ? Tensor{} : logits(wanted));
}

void Stage::run(const StepInput& input, const State& state) {
  Ops& ops = rank_.ops();
  StepInput own = input;
  if (!stack_->reads_out()) own.wanted = {};
  const auto rows = static_cast<int64_t>(input.token.size());
  const Batch batch = ops.begin_step(own, state);
  FULMAR_CHECK(batch.rows <= most_rows_ && batch.wanted <= outputs_.hidden.rows);
  Stream stream = stack_->stream(batch);
  // Batch 1 uses block7 only if the f32 values of block 0 are available.
  if (!lone_ && !stack_->embeds()) stream.v_first_wide = {};
  if (before_ != nullptr) before_->receive(message(stream, rows));
  const auto body = [&] { compute(batch, state, stream); };
  ranks_ == nullptr || ranks_->recordable() ? ops.run_step(batch, body) : body();
  if (ranks_ != nullptr) ranks_->meet();
  check();
  if (behind_ != nullptr) behind_->send(message(stream, rows));
}

}  // namespace fulmar
