// Decides which constraints are evicted first.
#include "server/generate/constraint_cache.h"

#include <algorithm>
#include <map>

#include "base/owner.h"

namespace fulmar {
namespace {

bool beyond(ConstraintCache::Bound held, ConstraintCache::Bound most) {
  return held.entries > most.entries || held.bytes > most.bytes;
}

}  // namespace

// Sums up what one owner holds, or all owners when `owner` is null.
ConstraintCache::Bound ConstraintCache::held_by(const std::string* owner) const {
  Bound held{0, 0};
  for (const CachedRules& entry : entries_) {
    if (owner && entry.owner != *owner) continue;
    ++held.entries;
    held.bytes += entry.bytes();
  }
  return held;
}

void ConstraintCache::drop_oldest_of(const std::string& owner) {
  const auto oldest = std::find_if(entries_.rbegin(), entries_.rend(),
                                   [&](const CachedRules& entry) { return entry.owner == owner; });
  if (oldest != entries_.rend()) entries_.erase(std::next(oldest).base());
}

// Returns the owner of the most bytes, or of the most entries. The cache must not be empty.
std::string ConstraintCache::largest_owner(bool by_bytes) const {
  std::map<std::string, size_t> held;
  for (const CachedRules& entry : entries_) held[entry.owner] += by_bytes ? entry.bytes() : 1;
  const auto largest = std::max_element(
      held.begin(), held.end(), [](const auto& one, const auto& other) { return one.second < other.second; });
  return largest->first;
}

// Removes dead entries, then the oldest of this owner, then the oldest of the largest owners, until the
// bounds hold. An owner's own bound never removes its latest entry, however large.
void ConstraintCache::shrink(const std::string& owner) {
  std::erase_if(entries_, [](const CachedRules& entry) {
    return entry.model.expired() || entry.compiled.constraint->full();
  });
  for (Bound held = held_by(&owner); held.entries > 1 && beyond(held, of_one_); held = held_by(&owner)) {
    drop_oldest_of(owner);
  }
  for (Bound held = held_by(nullptr); beyond(held, of_all_); held = held_by(nullptr)) {
    drop_oldest_of(largest_owner(held.bytes > of_all_.bytes));
  }
}

std::optional<CompiledRules> ConstraintCache::find(const std::string& owner, const ServedModelPtr& model,
                                                   const std::string& key) {
  std::lock_guard lock(mutex_);
  shrink(owner);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const CachedRules& entry) {
    return entry.owner == owner && entry.key == key && entry.model.lock() == model;
  });
  if (found == entries_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found);
  return found->compiled;
}

void ConstraintCache::keep(const std::string& owner, const ServedModelPtr& model, std::string key,
                           CompiledRules compiled) {
  if (owner == kNobody) return;
  std::lock_guard lock(mutex_);
  entries_.push_front({owner, model, std::move(key), std::move(compiled)});
  shrink(owner);
}

ConstraintCache::Bound ConstraintCache::held() {
  std::lock_guard lock(mutex_);
  return held_by(nullptr);
}

}  // namespace fulmar
