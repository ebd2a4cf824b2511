#include "cases/islands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "cases/composed.h"

namespace fulmar::cases {

using Tensors = CaseLayer::Tensors;

// ---- layers of a stage

struct CaseLayer::Layers {
  std::optional<std::pair<TimeMix7, ChannelMix7>> seven[2][2];  // [first block][deep]
  std::optional<std::pair<TimeMix6, ChannelMix6>> six;
};

CaseLayer::Layers& CaseLayer::layers() {
  if (layers_ == nullptr) layers_ = std::make_shared<Layers>();
  return *layers_;
}

namespace {

// Finishes a layer: backends may refuse its weights.
template <class Att, class Ffn>
std::pair<Att, Ffn>& finish(CaseLayer& stage, std::optional<std::pair<Att, Ffn>>& layer, Att att, Ffn ffn) {
  layer.emplace(std::move(att), std::move(ffn));
  stage.finished(stage.ops().check_layer(stage.shape().width()));
  return *layer;
}

std::pair<TimeMix7, ChannelMix7>& layer7(CaseLayer& stage,
                                         std::optional<std::pair<TimeMix7, ChannelMix7>>& layer,
                                         bool first_block, bool deep) {
  if (layer) return *layer;
  TimeMix7 att = make_time_mix7(stage.weights(), stage.shape(), first_block);
  return finish(stage, layer, std::move(att), make_channel_mix7(stage.weights(), stage.shape(), deep));
}

std::pair<TimeMix6, ChannelMix6>& layer6(CaseLayer& stage,
                                         std::optional<std::pair<TimeMix6, ChannelMix6>>& layer) {
  if (layer) return *layer;
  TimeMix6 att = make_time_mix6(stage.weights(), stage.shape());
  return finish(stage, layer, std::move(att), make_channel_mix6(stage.weights(), stage.shape()));
}

}  // namespace

const TimeMix7& CaseLayer::time_mix7(bool first_block) {
  return layer7(*this, layers().seven[first_block ? 1 : 0][0], first_block, false).first;
}
const ChannelMix7& CaseLayer::channel_mix7(bool deep) {
  return layer7(*this, layers().seven[0][deep ? 1 : 0], false, deep).second;
}
const TimeMix6& CaseLayer::time_mix6() { return layer6(*this, layers().six).first; }
const ChannelMix6& CaseLayer::channel_mix6() { return layer6(*this, layers().six).second; }

void CaseLayer::give_rows(int count, double low, double high) {
  for (int i = 0; i < count; i++) {
    give(batch().rows, shape().width(), ops().activation_dtype(), low, high);
  }
}

void CaseLayer::give_residual() { give(batch().rows, shape().width(), ops().residual_dtype(), -2, 2); }

namespace {

template <size_t N>
std::array<Tensor, N> part(const Tensors& tensors, size_t from) {
  std::array<Tensor, N> out;
  std::copy_n(tensors.begin() + static_cast<ptrdiff_t>(from), N, out.begin());
  return out;
}
Projected7 projected7(const Tensors& t, size_t from) {
  return {t[from], t[from + 1], t[from + 2], t[from + 3], t[from + 4], t[from + 5], t[from + 6]};
}
Projected6 projected6(const Tensors& t, size_t from) {
  return {t[from], t[from + 1], t[from + 2], t[from + 3], t[from + 4]};
}

// The islands that a case calls: the backend's own or the composed ones.
template <class Islands, class Composed>
class Bodies {
 public:
  Bodies(Islands& own, Ops& ops, Body body) : composed_(ops), called_(body == Body::own ? own : composed_) {}
  Islands* operator->() const { return &called_; }

 private:
  Composed composed_;
  Islands& called_;
};
struct Bodies7 : Bodies<Islands7, Composed7> {
  Bodies7(CaseLayer& stage, Body body) : Bodies(stage.ops().rwkv7(), stage.ops(), body) {}
};
struct Bodies6 : Bodies<Islands6, Composed6> {
  Bodies6(CaseLayer& stage, Body body) : Bodies(stage.ops().rwkv6(), stage.ops(), body) {}
};

// ---- RWKV-7

Island::Run enter7(CaseLayer& stage, bool pending) {
  const TimeMix7& att = stage.time_mix7();
  stage.give_residual();
  stage.give_rows(7);
  return [&, pending](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    on->enter(stage.batch(), att, t[0], pending ? t[1] : Tensor{}, stage.field(kAttShift), part<6>(t, 2));
  };
}

Island::Run project7(CaseLayer& stage, bool first_block) {
  const TimeMix7& att = stage.time_mix7(first_block);
  stage.give_rows(14);
  return [&, first_block](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    const Projected7 p = projected7(t, 7);
    on->project(stage.batch(), att, part<6>(t, 0), first_block, t[6], p);
  };
}

// Gives inputs in the ranges of project7's outputs: a unit key per head, a rate between 0 and 1.
void give_projected7(CaseLayer& stage) {
  const auto unit = 1.7 / std::sqrt(static_cast<double>(stage.shape().head_size));
  stage.give_rows(4);               // r, k, v, g
  stage.give_rows(1, -8, 4);        // u
  stage.give_rows(1, -unit, unit);  // kk
  stage.give_rows(1, 0, 1);         // alpha
  stage.give_rows(2);               // y, pending
}

Island::Run recur7(CaseLayer& stage) {
  const TimeMix7& att = stage.time_mix7();
  give_projected7(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    on->recur(stage.batch(), att, projected7(t, 0), stage.field(kWkv), t[7]);
  };
}

Island::Run leave7(CaseLayer& stage) {
  const TimeMix7& att = stage.time_mix7();
  give_projected7(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    on->leave(stage.batch(), att, projected7(t, 0), t[7], t[8]);
    stage.forget(t[7]);
  };
}

Island::Run attend7(CaseLayer& stage) {
  const TimeMix7& att = stage.time_mix7();
  give_projected7(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    on->attend(stage.batch(), att, projected7(t, 0), stage.field(kWkv), t[7], t[8]);
    stage.forget(t[7]);
  };
}

Island::Run channel_mix7(CaseLayer& stage, bool deep) {
  const int64_t c = stage.shape().width();
  Embedding embedding;
  if (deep) {
    embedding = {stage.weights().weight(stage.shape().deep_vocab, c, WeightRole::embedding),
                 stage.weights().norm(c)};
  }
  const ChannelMix7& ffn = stage.channel_mix7(deep);
  stage.give_residual();
  stage.give_rows(1);
  return [&, embedding](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    on->channel_mix(stage.batch(), embedding, ffn, t[0], t[1], stage.field(kFfnShift), t[1]);
  };
}

// Runs a block as a model does: at once where the backend can, else island by island. What the islands leave
// pending is added to x, so that results can be compared.
Island::Run block7(CaseLayer& stage) {
  const TimeMix7& att = stage.time_mix7();
  const ChannelMix7& ffn = stage.channel_mix7();
  stage.give_residual();
  stage.give_rows(16);  // v_first, mixed, p, y, pending
  stage.give_first_row_of(1);
  return [&](const Tensors& t, Body body) {
    const Bodies7 on(stage, body);
    const Block7Work work{part<6>(t, 2), t[1], t[17], projected7(t, 8), t[15], t[16]};
    const Batch& batch = stage.batch();
    const Block7State at{stage.field(kAttShift), stage.field(kWkv), stage.field(kFfnShift)};
    const bool whole = on->block(batch, {att, ffn, false}, t[0], work, at);
    if (!whole) {
      on->enter(batch, att, t[0], {}, at.att_shift, work.mixed);
      on->time_mix(batch, att, false, work, at.wkv);
      on->channel_mix(batch, {}, ffn, t[0], work.pending, at.ffn_shift, work.pending);
      stage.add_pending(t[0], work.pending);
    }
    for (size_t i = 2; i < t.size(); i++) stage.forget(t[i]);
  };
}

// ---- RWKV-6

Island::Run enter6(CaseLayer& stage) {
  const TimeMix6& att = stage.time_mix6();
  stage.give_residual();
  stage.give_rows(6);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->enter(stage.batch(), att, t[0], t[1], stage.field(kAttShift), part<5>(t, 2));
  };
}

Island::Run project6(CaseLayer& stage) {
  const TimeMix6& att = stage.time_mix6();
  stage.give_rows(10);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->project(stage.batch(), att, part<5>(t, 0), projected6(t, 5));
  };
}

// Decays from almost none to almost all: RWKV-6's have no lower bound.
void give_projected6(CaseLayer& stage) {
  stage.give_rows(4);         // r, k, v, g
  stage.give_rows(1, -7, 5);  // u
  stage.give_rows(2);         // y, pending
}

Island::Run recur6(CaseLayer& stage) {
  const TimeMix6& att = stage.time_mix6();
  give_projected6(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->recur(stage.batch(), att, projected6(t, 0), stage.field(kWkv), t[5]);
  };
}

Island::Run leave6(CaseLayer& stage) {
  const TimeMix6& att = stage.time_mix6();
  give_projected6(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->leave(stage.batch(), att, projected6(t, 0), t[5], t[6]);
    stage.forget(t[5]);
  };
}

Island::Run attend6(CaseLayer& stage) {
  const TimeMix6& att = stage.time_mix6();
  give_projected6(stage);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->attend(stage.batch(), att, projected6(t, 0), stage.field(kWkv), t[5], t[6]);
    stage.forget(t[5]);
  };
}

Island::Run channel_mix6(CaseLayer& stage) {
  const ChannelMix6& ffn = stage.channel_mix6();
  stage.give_residual();
  stage.give_rows(1);
  return [&](const Tensors& t, Body body) {
    const Bodies6 on(stage, body);
    on->channel_mix(stage.batch(), ffn, t[0], t[1], stage.field(kFfnShift), t[1]);
  };
}

// ---- both

Island::Run read_out(CaseLayer& stage) {
  const int64_t c = stage.shape().width(), wanted = stage.batch().wanted, vocab = stage.shape().vocab;
  const Head head{stage.weights().norm(c), stage.weights().weight(vocab, c, WeightRole::head)};
  stage.give_residual();
  stage.give_rows(1);
  stage.give(wanted, c, stage.ops().activation_dtype(), -1, 1);
  stage.give(wanted, vocab, DType::f32, -1, 1);
  return [&, head](const Tensors& t, Body body) {
    Ops& ops = stage.ops();
    if (body == Body::own) return ops.read_out(stage.batch(), head, t[0], t[1], t[2], t[3]);
    ops.Ops::read_out(stage.batch(), head, t[0], t[1], t[2], t[3]);
  };
}

// ---- what they take at least

double square(const LayerShape& shape) { return static_cast<double>(shape.width() * shape.width()); }
double feed_forward(const LayerShape& shape) { return static_cast<double>(shape.width() * shape.n_ffn); }
double low_rank7(const LayerShape& shape) {
  const int64_t ranks = shape.rank_w + shape.rank_a + shape.rank_v + shape.rank_g;
  return 2 * static_cast<double>(ranks * shape.width());
}
double hidden_units(const LayerShape& shape) {
  return static_cast<double>(shape.n_ffn) / static_cast<double>(shape.width());
}

// ---- products

// The matrices of a layer whose products are timed alone.
struct Products {
  Weight output, value, key;
};

Products products_of(CaseLayer& stage) {
  const auto of = [](const auto& att, const auto& ffn) { return Products{att.output, ffn.value, ffn.key}; };
  switch (stage.version()) {
    case 7:
      return of(stage.time_mix7(), stage.channel_mix7());
    case 6:
      return of(stage.time_mix6(), stage.channel_mix6());
    default:
      FULMAR_CHECK(false, "a version without a layer");
  }
  return {};
}

Island product(const char* name, Weight Products::*which, bool hidden_in, bool hidden_out) {
  const auto width = [](const CaseLayer& stage, bool hidden) {
    return hidden ? stage.shape().n_ffn : stage.shape().width();
  };
  const auto prepare = [=](CaseLayer& stage) -> Island::Run {
    const Weight weight = products_of(stage).*which;
    const DType dtype = stage.ops().activation_dtype();
    stage.give(stage.batch().rows, width(stage, hidden_in), dtype, -1, 1, hidden_in ? stage.zeros() : 0);
    stage.give(stage.batch().rows, width(stage, hidden_out), dtype, -1, 1);
    return [&stage, weight](const Tensors& t, Body) { stage.ops().linear(t[0], weight, t[1]); };
  };
  const auto work = [=](const LayerShape& shape) -> Work {
    const bool wide = hidden_in || hidden_out;
    return {wide ? feed_forward(shape) : square(shape), wide ? 1 + hidden_units(shape) : 2, false};
  };
  return {name, 0, prepare, work};
}

}  // namespace

const std::vector<Island>& islands() {
  using S = LayerShape;
  static const std::vector<Island> list = {
      {"enter7", 7, [](CaseLayer& s) { return enter7(s, true); },
       [](const S&) {
         return Work{0, 11, false};
       }},
      {"enter7_first", 7, [](CaseLayer& s) { return enter7(s, false); }, {}},
      {"project7", 7, [](CaseLayer& s) { return project7(s, false); },
       [](const S& s) {
         return Work{3 * square(s) + low_rank7(s), 15, false};
       }},
      {"project7_first", 7, [](CaseLayer& s) { return project7(s, true); }, {}},
      {"recur7", 7, recur7,
       [](const S&) {
         return Work{0, 7, true};
       }},
      {"leave7", 7, leave7,
       [](const S& s) {
         return Work{square(s), 7, false};
       }},
      {"attend7", 7, attend7,
       [](const S& s) {
         return Work{square(s), 9, true};
       }},
      {"channel_mix7", 7, [](CaseLayer& s) { return channel_mix7(s, false); },
       [](const S& s) {
         return Work{2 * feed_forward(s), 6, false};
       }},
      {"channel_mix7_deep", 7, [](CaseLayer& s) { return channel_mix7(s, true); }, {}},
      {"block7", 7, block7,
       [](const S& s) {
         return Work{4 * square(s) + low_rank7(s) + 2 * feed_forward(s), 40, true};
       },
       3},
      {"enter6", 6, enter6,
       [](const S& s) {
         return Work{10 * static_cast<double>(s.rank_mix * s.width()), 10, false};
       }},
      {"project6", 6, project6,
       [](const S& s) {
         return Work{4 * square(s) + 2 * static_cast<double>(s.rank_decay * s.width()), 10, false};
       }},
      {"recur6", 6, recur6,
       [](const S&) {
         return Work{0, 5, true};
       }},
      {"leave6", 6, leave6,
       [](const S& s) {
         return Work{square(s), 4, false};
       }},
      {"attend6", 6, attend6,
       [](const S& s) {
         return Work{square(s), 7, true};
       }},
      {"channel_mix6", 6, channel_mix6,
       [](const S& s) {
         return Work{2 * feed_forward(s) + square(s), 8, false};
       }},
      {"read_out", 0, read_out, {}}};
  return list;
}

const std::vector<Island>& products() {
  static const std::vector<Island> list = {product("output", &Products::output, false, false),
                                           product("value", &Products::value, true, false),
                                           product("key", &Products::key, false, true)};
  return list;
}

}  // namespace fulmar::cases
