#include "model/stack.h"

#include "model/block_kind.h"

namespace fulmar {

Stack::Stack(const Binder& binder, LayerRange held, Buffers& buffers, int64_t max_rows)
    : ops_(binder.ops()),
      n_layer_(binder.config().n_layer),
      held_(held),
      slice_(binder.slice()),
      head_width_(binder.config().n_embd / slice_.count) {
  const ModelConfig& config = binder.config();
  buffers.declare(x_, max_rows, config.n_embd, ops_.residual_dtype());
  for (Tensor& one : std::span(pending_).first(slice_.whole() ? 1 : 2)) {
    buffers.declare(one, max_rows, config.n_embd, ops_.activation_dtype());
  }
  if (!block_kind(config).needs_first_values) return;
  buffers.declare(v_first_, max_rows, head_width_, ops_.activation_dtype());
  buffers.declare(v_first_wide_, 1, head_width_, DType::f32);
}

Result<std::unique_ptr<Stack>> Stack::bind(Binder& binder, Buffers& buffers, int64_t max_rows,
                                           LayerRange held, const std::function<void(int64_t)>& loaded) {
  const ModelConfig& config = binder.config();
  std::unique_ptr<Stack> stack = block_kind(config).make(binder, held, buffers, max_rows);
  if (stack->embeds() || config.deep_embed) {
    binder.repeats(!stack->embeds());
    stack->embedding_.table = binder.matrix("emb.weight", config.vocab, config.n_embd, WeightRole::embedding);
    if (!config.embedding_normed) stack->embedding_.ln0 = binder.norm("blocks.0.ln0", config.n_embd);
    binder.repeats(false);
  }
  loaded(held.first);
  for (int64_t l = held.first; l < held.last; l++) {
    FULMAR_TRY(stack->bind_layer(binder, l));
    loaded(l + 1);
  }
  if (stack->reads_out()) {
    stack->head_.ln_out = binder.norm("ln_out", config.n_embd);
    stack->head_.matrix =
        binder.matrix("head.weight", config.vocab, config.n_embd, WeightRole::head, Cut::vocabulary);
  }
  FULMAR_TRY(binder.status());
  return stack;
}

Stream Stack::stream(const Batch& batch) const {
  return {x_.slice_rows(0, batch.rows), {}, v_first_.slice_rows(0, batch.rows), v_first_wide_};
}

void Stack::embed(const Batch& batch, const Stream& stream) { ops_.embed(batch, embedding_, stream.x); }

void Stack::share_with(Collective* ranks) {
  ranks_ = ranks;
  if (ranks != nullptr) ranks->register_addends(pending_);
}

void Stack::absorb(Stream& stream) {
  ops_.absorb(stream.x, stream.pending);
  stream.pending = {};
}

void Stack::head(const Batch& batch, const Stream& stream, Tensor hidden, Tensor logits) {
  ops_.read_out(batch, head_, stream.x, stream.pending, hidden, logits);
}

}  // namespace fulmar
