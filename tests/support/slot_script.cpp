#include "support/slot_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace fulmar::support {

namespace {

class Player {
 public:
  Player(ModelRig& rig, const SlotScript& script) : rig_(rig), script_(script), random_(script.seed) {}

  SlotTrace play() {
    for (int64_t slot = 0; slot < script_.slots; slot++) rig_.pool().zero(slot);
    for (int i = 0; i < script_.steps; i++) {
      step();
      move_states();
    }
    for (int64_t slot = 0; slot < script_.slots; slot++) trace_.states.push_back(rig_.pool().read(slot));
    return std::move(trace_);
  }

 private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(limit)); }

  // Most rows decode; some feed a chunk of a prompt, or drafts.
  Feed feed_of(int64_t slot) {
    Feed feed{slot, {}};
    int64_t rows = 1;
    const int64_t kind = below(10);
    if (kind == 0) rows = 1 + below(script_.longest);
    if (kind >= 7 && script_.most_drafted > 0) {
      feed.revocable = true;
      rows = 2 + below(script_.most_drafted);
    }
    for (int64_t i = 0; i < rows; i++) feed.tokens.push_back(static_cast<int32_t>(below(script_.vocab)));
    return feed;
  }

  void step() {
    std::vector<int64_t> order(static_cast<size_t>(script_.slots));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(static_cast<size_t>(1 + below(script_.slots)));
    std::vector<Feed> feeds;
    for (const int64_t slot : order) feeds.push_back(feed_of(slot));
    for (auto& row : rig_.step(feeds)) trace_.logits.push_back(std::move(row));
    for (const Feed& feed : feeds) {
      if (feed.revocable) rig_.roll_back(feed.slot, below(static_cast<int64_t>(feed.tokens.size())));
    }
  }

  void move_states() {
    const int64_t from = below(script_.slots), to = below(script_.slots);
    const int64_t kind = below(12);
    if (kind == 0) rig_.pool().zero(from);
    if (kind == 1 || kind == 2) rig_.pool().copy(from, to);
    if (kind == 3) trace_.states.push_back(rig_.pool().read(from));
    if (script_.restores_every == 0 || below(script_.restores_every) != 0) return;
    trace_.states.push_back(rig_.pool().read(from));
    rig_.pool().write(to, trace_.states.back());
  }

  ModelRig& rig_;
  const SlotScript& script_;
  std::mt19937 random_;
  SlotTrace trace_;
};

}  // namespace

SlotTrace play(ModelRig& rig, const SlotScript& script) { return Player(rig, script).play(); }

SlotTrace play(const SyntheticSpec& spec, Ops& ops, const SlotScript& script) {
  ModelRig rig(synthetic_checkpoint(spec), ops, script.slots);
  return play(rig, script);
}

void expect_same_trace(const SlotTrace& got, const SlotTrace& want, const std::string& what) {
  EXPECT_EQ(got.logits, want.logits) << what;
  EXPECT_EQ(got.states, want.states) << what;
}

}  // namespace fulmar::support
