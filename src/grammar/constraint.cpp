// Masks by state, and a row's walk.
#include "grammar/constraint.h"

#include <algorithm>

namespace fulmar {
namespace {

// No text of JSON and none of a grammar has this byte, as none in UTF-8 does.
constexpr uint8_t kNoText = 0xFF;

}  // namespace

bool Constraint::is_free(State state) {
  return automaton_.accepting(state) && automaton_.step(state, kNoText) != Automaton::kDead;
}

bool Constraint::free(State state) {
  std::lock_guard lock(mutex_);
  return is_free(state);
}

Constraint::Mask Constraint::allowed(State state, size_t& work) {
  std::lock_guard lock(mutex_);
  const int32_t future = automaton_.near_future(state);
  const auto found = mask_of_.find(future);
  if (found != mask_of_.end()) {
    masks_.splice(masks_.begin(), masks_, found->second);
    return found->second->second;
  }
  std::vector<uint64_t> bits(tree_->words());
  work += tree_->mark(automaton_, state, bits);
  if (is_free(state)) {
    tree_->mark_others(bits);
    const auto all = [](uint64_t word) { return word == ~uint64_t{0}; };
    if (std::all_of(bits.begin(), bits.end(), all)) bits.clear();
  }
  masks_.emplace_front(future, std::make_shared<const std::vector<uint64_t>>(std::move(bits)));
  mask_of_[future] = masks_.begin();
  if (masks_.size() > kMaxMasks) {
    mask_of_.erase(masks_.back().first);
    masks_.pop_back();
  }
  count();
  return masks_.front().second;
}

// Updates the figures that are read without the lock.
void Constraint::count() {
  states_ = automaton_.states();
  bytes_ = automaton_.bytes() + masks_.size() * tree_->words() * sizeof(uint64_t);
}

bool Constraint::remembers(State state) {
  std::lock_guard lock(mutex_);
  return mask_of_.contains(automaton_.near_future(state));
}

std::optional<int32_t> Constraint::forced(State state) {
  std::lock_guard lock(mutex_);
  const auto token = tree_->forced(automaton_, state);
  count();
  return token;
}

Constraint::State Constraint::advance(State state, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  for (const char byte : bytes) {
    if (state == Automaton::kDead) break;
    state = automaton_.step(state, static_cast<uint8_t>(byte));
  }
  count();
  return state;
}

bool Constraint::accepting(State state) {
  std::lock_guard lock(mutex_);
  return automaton_.accepting(state);
}

bool Constraint::final(State state) {
  std::lock_guard lock(mutex_);
  return automaton_.final(state);
}

std::shared_ptr<Constraint> Constraint::rooted_at(State state) {
  std::lock_guard lock(mutex_);
  return std::make_shared<Constraint>(automaton_.rooted_at(state), tree_);
}

// Continues in a constraint of its own if the shared one has grown too large.
void ConstraintWalk::leave_full() {
  if (!constraint_->full()) return;
  constraint_ = constraint_->rooted_at(state_);
  state_ = 0;
}

std::optional<int32_t> ConstraintWalk::forced() {
  if (forced_) return *forced_;
  if (state_ == Automaton::kDead) return std::nullopt;
  leave_full();
  forced_ = constraint_->forced(state_);
  return *forced_;
}

size_t ConstraintWalk::prepare() {
  if (mask_ || state_ == Automaton::kDead) return 0;
  leave_full();
  size_t work = 0;
  mask_ = constraint_->allowed(state_, work);
  return work;
}

std::span<const uint64_t> ConstraintWalk::allowed() {
  if (state_ == Automaton::kDead) return {};
  prepare();
  if (!stop_ || mask_->empty() || !constraint_->accepting(state_)) return *mask_;
  with_stop_ = *mask_;
  const auto id = static_cast<size_t>(*stop_);
  with_stop_.resize(std::max(with_stop_.size(), id / 64 + 1));
  with_stop_[id / 64] |= uint64_t{1} << (id % 64);
  return with_stop_;
}

void ConstraintWalk::accept(int32_t token) {
  if (state_ == Automaton::kDead) return;
  const Constraint::State next = constraint_->advance(state_, tokenizer_.bytes(token));
  if (next == state_) return;  // as in free text, mostly
  const bool was_free = !bound_ && constraint_->free(state_);
  state_ = next;
  mask_.reset();
  forced_.reset();
  if (was_free) bound_ = state_ == Automaton::kDead || !constraint_->free(state_);
}

bool ConstraintWalk::complete() const {
  if (state_ == Automaton::kDead) return true;
  if (constraint_->final(state_)) return true;
  return !stop_ && constraint_->accepting(state_) && !constraint_->free(state_);
}

}  // namespace fulmar
