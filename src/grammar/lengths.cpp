// The sets of accepting states walked backwards until they repeat.
#include "grammar/lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace fulmar {
namespace {

constexpr size_t kStepsPerWork = 8;
constexpr size_t kEntryCost = 2;  // each is kept as long as the grammar

}  // namespace

Result<std::shared_ptr<const Lengths>> Lengths::of(std::span<const int32_t> next, size_t symbols,
                                                   const std::vector<bool>& accepting, int64_t most,
                                                   Budget& budget) {
  auto lengths = std::make_shared<Lengths>();
  const size_t states = accepting.size();
  lengths->states_ = states;
  std::vector<std::vector<bool>> after = {accepting};  // by number of steps: the states that accept then
  std::map<std::vector<bool>, int64_t> first_at = {{accepting, 0}};
  bool repeats = false;
  while (!repeats && (most < 0 || static_cast<int64_t>(after.size()) <= most)) {
    FULMAR_TRY(budget.take(Budget::Item::work, states * (symbols + 1) / kStepsPerWork + 1));
    if (after.size() * states > kMaxEntries) {
      return Error{ErrorKind::unsupported,
                   fmt::format("counts the lengths of {} states for more than {} steps; at most {} of both "
                               "together are kept",
                               states, after.size(), kMaxEntries)};
    }
    std::vector<bool> before(states);
    for (size_t i = 0; i < states * symbols; ++i) {
      if (next[i] >= 0 && after.back()[static_cast<size_t>(next[i])]) before[i / symbols] = true;
    }
    const auto [found, fresh] = first_at.emplace(before, static_cast<int64_t>(after.size()));
    if (!fresh) {
      repeats = true;
      lengths->settled_ = found->second;
      lengths->period_ = static_cast<int64_t>(after.size()) - found->second;
    } else {
      after.push_back(std::move(before));
    }
  }
  const size_t count = after.size();
  FULMAR_TRY(budget.take(Budget::Item::work, count * states * kEntryCost));
  if (!repeats) {  // nothing beyond is asked for
    lengths->settled_ = static_cast<int64_t>(count) - 1;
    lengths->period_ = 1;
  }
  // Twice from the end, so that the first lengths of a period are known at its last.
  lengths->more_.assign(count * states, kNever);
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t n = count; n-- > 0;) {
      const size_t then = n + 1 < count ? n + 1 : static_cast<size_t>(lengths->settled_);
      for (size_t state = 0; state < states; ++state) {
        const int32_t later = lengths->more_[then * states + state];
        int32_t& more = lengths->more_[n * states + state];
        if (after[n][state]) {
          more = 0;
        } else if (repeats || n + 1 < count) {
          more = later < 0 ? kNever : later + 1;
        }
      }
    }
  }
  return std::shared_ptr<const Lengths>(std::move(lengths));
}

bool Lengths::any(int32_t state, int64_t from, int64_t to) const {
  const int64_t folded = from < settled_ ? from : settled_ + (from - settled_) % period_;
  const int32_t more = more_[static_cast<size_t>(folded) * states_ + static_cast<size_t>(state)];
  return more >= 0 && (to < 0 || from + more <= to);
}

}  // namespace fulmar
