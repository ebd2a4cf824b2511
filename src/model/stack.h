// What the versions have in common: embedding, a stack of blocks and the head, and how these are bound.
#pragma once

#include <functional>
#include <vector>

#include "model/bind.h"

namespace fulmar {

template <class TimeMix, class ChannelMix>
struct Layer {
  TimeMix att;
  ChannelMix ffn;
};

template <class TimeMix, class ChannelMix>
struct Stack {
  Embedding embedding;
  std::vector<Layer<TimeMix, ChannelMix>> layers;
  Head head;
};

// Fills an empty stack. time_mix and channel_mix bind those of one block; `loaded(l)` is called after each of
// the l blocks. Fails as the binder or the backend does.
template <class TimeMix, class ChannelMix>
Status bind_stack(Binder& binder, Stack<TimeMix, ChannelMix>& stack,
                  TimeMix (*time_mix)(Binder&, int64_t layer),
                  ChannelMix (*channel_mix)(Binder&, int64_t layer),
                  const std::function<void(int64_t)>& loaded) {
  const ModelConfig& config = binder.config();
  stack.embedding.table = binder.matrix("emb.weight", config.vocab, config.n_embd, WeightRole::embedding);
  if (!config.embedding_normed) stack.embedding.ln0 = binder.norm("blocks.0.ln0", config.n_embd);
  stack.layers.reserve(static_cast<size_t>(config.n_layer));  // backends may remember a layer by address
  for (int64_t l = 0; l < config.n_layer; l++) {
    auto& layer =
        stack.layers.emplace_back(Layer<TimeMix, ChannelMix>{time_mix(binder, l), channel_mix(binder, l)});
    FULMAR_TRY(binder.status());
    FULMAR_TRY(binder.ops().finish_layer(layer.att, layer.ffn));
    loaded(l + 1);
  }
  stack.head.ln_out = binder.norm("ln_out", config.n_embd);
  stack.head.matrix = binder.matrix("head.weight", config.vocab, config.n_embd, WeightRole::head);
  return binder.status();
}

}  // namespace fulmar
