#include "model/stack.h"

#include "model/rwkv6.h"
#include "model/rwkv7.h"

namespace fulmar {

Stack::Stack(const ModelConfig& config, Ops& ops, Buffers& buffers, int64_t max_rows)
    : ops_(ops), n_layer_(config.n_layer) {
  buffers.declare(x_, max_rows, config.n_embd, ops.residual_dtype());
  buffers.declare(pending_, max_rows, config.n_embd, ops.activation_dtype());
  if (config.version != 7) return;
  buffers.declare(v_first_, max_rows, config.n_embd, ops.activation_dtype());
  buffers.declare(v_first_wide_, 1, config.n_embd, DType::f32);
}

Result<std::unique_ptr<Stack>> Stack::bind(Binder& binder, Buffers& buffers, int64_t max_rows,
                                           const std::function<void(int64_t)>& loaded) {
  const ModelConfig& config = binder.config();
  std::unique_ptr<Stack> stack;
  if (config.version == 7) {
    stack = std::make_unique<Rwkv7>(config, binder.ops(), buffers, max_rows);
  } else {
    stack = std::make_unique<Rwkv6>(config, binder.ops(), buffers, max_rows);
  }
  stack->embedding_.table = binder.matrix("emb.weight", config.vocab, config.n_embd, WeightRole::embedding);
  if (!config.embedding_normed) stack->embedding_.ln0 = binder.norm("blocks.0.ln0", config.n_embd);
  for (int64_t l = 0; l < config.n_layer; l++) {
    FULMAR_TRY(stack->bind_layer(binder, l));
    loaded(l + 1);
  }
  stack->head_.ln_out = binder.norm("ln_out", config.n_embd);
  stack->head_.matrix = binder.matrix("head.weight", config.vocab, config.n_embd, WeightRole::head);
  FULMAR_TRY(binder.status());
  return stack;
}

Stream Stack::embed(const Batch& batch) {
  const Stream stream{x_.slice_rows(0, batch.rows), {}, v_first_.slice_rows(0, batch.rows), v_first_wide_};
  ops_.embed(batch, embedding_, stream.x);
  return stream;
}

void Stack::head(const Batch& batch, const Stream& stream, Tensor hidden, Tensor logits) {
  ops_.read_out(batch, head_, stream.x, stream.pending, hidden, logits);
}

}  // namespace fulmar
