#include "support/company.h"

#include <algorithm>
#include <random>

namespace fulmar::support {

namespace {

constexpr int64_t kOwnSlot = 0;
constexpr int64_t kPromptRows = 33, kShortRows = 5, kDraftedRows = 3;  // of others that do not decode

class Party {
 public:
  Party(const Company& company, bool drafts, int32_t vocab)
      : company_(company), drafts_(drafts), vocab_(vocab), random_(static_cast<uint32_t>(company.rows)) {}

  // A step's feeds, the sequence's own among them, which is `own`; `at`: which one that is.
  std::vector<Feed> around(Feed own, size_t& at) {
    std::vector<Feed> feeds;
    int64_t left = company_.rows - static_cast<int64_t>(own.tokens.size());
    const auto add = [&](int64_t rows, bool revocable) {
      if (rows > left || rows < 1) return;
      feeds.push_back(other(1 + static_cast<int64_t>(feeds.size()), rows, revocable));
      left -= rows;
    };
    if (company_.mixed) {
      add(std::min(left, kPromptRows), false);
      add(kShortRows, false);
      if (drafts_) add(kDraftedRows, true);
    }
    while (left > 0) add(1, false);
    at = std::uniform_int_distribution<size_t>(0, feeds.size())(random_);
    feeds.insert(feeds.begin() + static_cast<ptrdiff_t>(at), std::move(own));
    return feeds;
  }

 private:
  Feed other(int64_t slot, int64_t rows, bool revocable) {
    Feed feed{slot, {}, revocable};
    for (int64_t i = 0; i < rows; i++) {
      feed.tokens.push_back(static_cast<int32_t>(random_() % static_cast<uint32_t>(vocab_)));
    }
    return feed;
  }

  const Company company_;
  const bool drafts_;
  const int32_t vocab_;
  std::mt19937 random_;
};

}  // namespace

SlotTrace play_in_company(ModelRig& rig, const Company& company, bool drafts, int32_t vocab) {
  struct OwnStep {
    int64_t rows;
    int64_t rolled_back = 0;
    bool restored = false;  // behind it the state is saved and restored
  };
  std::vector<OwnStep> steps{{40}, {7}, {1}, {1}, {1}, {1}, {1}};
  if (drafts) steps.insert(steps.end(), {{4, 2}, {1}, {3, 0}, {5, 4}, {1}});
  steps.insert(steps.end(), {{17}, {1}, {1, 0, true}, {1}, {2}, {1}, {1}});

  SlotTrace trace;
  Party party(company, drafts, vocab);
  std::mt19937 random(11);
  for (int64_t slot = 0; slot < rig.pool().slots(); slot++) rig.pool().zero(slot);
  for (const OwnStep& step : steps) {
    Feed own{kOwnSlot, {}, drafts && step.rows > 2 && step.rows < 6};
    for (int64_t i = 0; i < step.rows; i++) {
      own.tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
    }
    const bool revocable = own.revocable;
    size_t at = 0;
    const std::vector<Feed> feeds = party.around(std::move(own), at);
    auto rows = rig.step(feeds);
    size_t first = 0;  // of the sequence's logits
    for (size_t i = 0; i < at; i++) first += feeds[i].revocable ? feeds[i].tokens.size() : 1;
    const size_t count = revocable ? static_cast<size_t>(step.rows) : 1;
    for (size_t i = first; i < first + count; i++) trace.logits.push_back(std::move(rows.at(i)));
    for (const Feed& feed : feeds) {
      if (feed.revocable) rig.roll_back(feed.slot, feed.slot == kOwnSlot ? step.rolled_back : 1);
    }
    if (!step.restored) continue;
    trace.states.push_back(rig.pool().read(kOwnSlot));
    rig.pool().write(kOwnSlot, trace.states.back());
  }
  trace.states.push_back(rig.pool().read(kOwnSlot));
  return trace;
}

}  // namespace fulmar::support
