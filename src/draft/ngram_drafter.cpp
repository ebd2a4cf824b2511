// Hash chains, as in dictionary coders: earlier positions that end with the same two tokens.
#include "draft/ngram_drafter.h"

#include <algorithm>

namespace fulmar {

namespace {

constexpr size_t kFewestBuckets = 64;

}  // namespace

NgramDrafter::NgramDrafter(std::span<const int32_t> prediction, std::span<const int32_t> prompt,
                           NgramLimits limits)
    : limits_(limits) {
  prediction = prediction.first(std::min(prediction.size(), limits_.window));
  prompt = prompt.last(std::min(prompt.size(), limits_.window));
  text_.reserve(prediction.size() + prompt.size() + 1);
  text_.assign(prediction.begin(), prediction.end());
  predicted_ = prediction.size();
  if (predicted_ > 0) {
    text_.push_back(kBreak);
    follows_ = 0;
  }
  text_.insert(text_.end(), prompt.begin(), prompt.end());
  index_all();
}

void NgramDrafter::append(int32_t token) {
  if (follows_) {
    const size_t next = *follows_ + 1;
    follows_ = text_[*follows_] == token && next < predicted_ ? std::optional(next) : std::nullopt;
  }
  text_.push_back(token);
  if (text_.size() > 2 * limits_.window + 1) return drop_oldest();
  if (text_.size() > latest_.size()) return index_all();
  previous_.push_back(kNowhere);
  index(text_.size() - 1);
}

void NgramDrafter::drop_oldest() {
  const size_t gone = text_.size() - limits_.window;
  text_.erase(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(gone));
  predicted_ -= std::min(predicted_, gone);
  follows_ = follows_ && *follows_ >= gone ? std::optional(*follows_ - gone) : std::nullopt;
  index_all();
}

void NgramDrafter::index_all() {
  size_t buckets = kFewestBuckets;
  while (buckets <= text_.size()) buckets *= 2;
  latest_.assign(buckets, kNowhere);
  previous_.assign(text_.size(), kNowhere);
  for (size_t at = 0; at < text_.size(); at++) index(at);
}

// Returns the hash bucket of the two tokens that end at this position.
size_t NgramDrafter::bucket(size_t at) const {
  const auto pair =
      static_cast<uint64_t>(static_cast<uint32_t>(text_[at - 1])) << 32 | static_cast<uint32_t>(text_[at]);
  return static_cast<size_t>(pair * 0x9E3779B97F4A7C15u >> 32) & (latest_.size() - 1);
}

void NgramDrafter::index(size_t at) {
  if (at + 1 < kShortestMatch || text_[at] == kBreak || text_[at - 1] == kBreak) return;
  int32_t& latest = latest_[bucket(at)];
  previous_[at] = latest;
  latest = static_cast<int32_t>(at);
}

// Returns how many tokens before and at this position equal the end of the text.
size_t NgramDrafter::match_length(size_t at) const {
  const size_t most = std::min(at + 1, limits_.longest), last = text_.size() - 1;
  size_t length = 0;
  while (length < most && text_[at - length] == text_[last - length] && text_[at - length] != kBreak)
    length++;
  return length;
}

std::optional<size_t> NgramDrafter::longest_match(size_t& length) const {
  std::optional<size_t> best;
  length = kShortestMatch - 1;
  int32_t at = text_.empty() ? kNowhere : previous_.back();
  for (size_t tries = 0; at != kNowhere && tries < limits_.candidates && length < limits_.longest; tries++) {
    const auto place = static_cast<size_t>(at);
    const size_t found = match_length(place);
    if (found > length && text_[place + 1] != kBreak) {
      length = found;
      best = place + 1;
    }
    at = previous_[place];
  }
  return best;
}

NgramDrafter::Match NgramDrafter::propose(size_t most, std::vector<int32_t>& draft) const {
  draft.clear();
  if (most == 0) return {};
  size_t length = limits_.longest;
  const std::optional<size_t> from = follows_ ? follows_ : longest_match(length);
  if (!from) return {};
  for (size_t at = *from; draft.size() < most; at++) {
    const int32_t token = at < text_.size() ? text_[at] : draft[at - text_.size()];
    if (token == kBreak) break;
    draft.push_back(token);
  }
  return {length, *from < predicted_};
}

}  // namespace fulmar
