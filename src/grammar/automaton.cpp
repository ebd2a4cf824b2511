// The subset construction, on demand, with call stacks as shared chains of frames.
#include "grammar/automaton.h"

#include <algorithm>
#include <limits>

namespace fulmar {
namespace {

// A bijective mixer of 64 bits (the finalizer of SplitMix64).
uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

// Testing a frame is that much cheaper than looking at a place.
constexpr size_t kTestsPerVisit = 8;
// What a step costs besides: finding or making the state it leads to.
constexpr size_t kStepCost = 16;

}  // namespace

size_t Automaton::ReadingHash::operator()(const Reading& reading) const {
  uint64_t hash = reading.accepting ? 1 : 0;
  for (const int32_t frame : reading.frames) hash = mixed(hash + static_cast<uint32_t>(frame) + 0x9E3779B9u);
  return hash;
}

Automaton::Automaton(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  Reading first;
  begin_reading();
  reach(grammar_->start(), -1, first);
  sort_frames(first);
  state_of(std::move(first));
}

Automaton Automaton::rooted_at(State state) const {
  Automaton fresh(grammar_, Empty{});
  Reading root;
  root.accepting = accepting(state);
  for (const int32_t frame : reading(state).frames) root.frames.push_back(fresh.copy_frame(*this, frame));
  fresh.sort_frames(root);
  fresh.state_of(std::move(root));
  return fresh;
}

int32_t Automaton::frame_of(Place place, int32_t caller) {
  const uint64_t key = (uint64_t{static_cast<uint32_t>(place)} << 32) | static_cast<uint32_t>(caller);
  const auto [found, fresh] = frame_ids_.emplace(key, static_cast<int32_t>(frames_.size()));
  if (fresh) {
    const uint64_t above = caller < 0 ? 0 : frames_[static_cast<size_t>(caller)].print;
    frames_.push_back({place, caller, mixed(above + static_cast<uint32_t>(place) + 1)});
    met_in_.push_back(0);
  }
  return found->second;
}

int32_t Automaton::copy_frame(const Automaton& from, int32_t frame) {
  std::vector<Place> places;  // the innermost first
  for (int32_t at = frame; at >= 0; at = from.frames_[static_cast<size_t>(at)].caller) {
    places.push_back(from.frames_[static_cast<size_t>(at)].place);
  }
  int32_t copy = -1;
  for (size_t i = places.size(); i-- > 0;) copy = frame_of(places[i], copy);
  return copy;
}

void Automaton::sort_frames(Reading& reading) const {
  std::sort(reading.frames.begin(), reading.frames.end(), [&](int32_t one, int32_t other) {
    const uint64_t print = frames_[static_cast<size_t>(one)].print;
    const uint64_t other_print = frames_[static_cast<size_t>(other)].print;
    return print != other_print ? print < other_print : one < other;
  });
}

void Automaton::begin_reading() {
  visits_ = 0;
  if (++reading_number_ == 0) {
    std::fill(met_in_.begin(), met_in_.end(), 0u);
    reading_number_ = 1;
  }
}

// Adds every frame that takes the next byte once `place` has been reached within a call from `caller`; the
// first of a branch first, so that where there are too many the later ones are left out.
void Automaton::reach(Place place, int32_t caller, Reading& next) {
  open_.assign(1, {place, caller});
  while (!open_.empty()) {
    const bool enough = next.frames.size() >= kMaxFrames || visits_ >= kMaxVisits;
    if (enough && !next.frames.empty()) {
      narrowed_ = true;
      return;
    }
    const Point at = open_.back();
    open_.pop_back();
    visits_++;
    if (!grammar_->useful(at.place)) continue;
    const Grammar::Node& node = grammar_->node(at.place);
    if (node.kind == Grammar::Kind::end) {
      if (at.caller < 0) {
        next.accepting = true;
      } else {
        const Frame& back = frames_[static_cast<size_t>(at.caller)];
        open_.push_back({back.place, back.caller});
      }
      continue;
    }
    if (node.kind == Grammar::Kind::call) {
      // A call in last position returns to where its caller does: chains then do not grow with repetition.
      const bool last = grammar_->node(node.next).kind == Grammar::Kind::end;
      open_.push_back({grammar_->beginning(node.what), last ? at.caller : frame_of(node.next, at.caller)});
      continue;
    }
    const int32_t frame = frame_of(at.place, at.caller);
    if (met_in_[static_cast<size_t>(frame)] == reading_number_) continue;
    met_in_[static_cast<size_t>(frame)] = reading_number_;
    if (node.kind == Grammar::Kind::take) {
      next.frames.push_back(frame);
    } else {
      open_.push_back({node.what, at.caller});
      open_.push_back({node.next, at.caller});
    }
  }
}

Automaton::State Automaton::find_step(State state, uint8_t byte) {
  Reading next;
  begin_reading();
  const std::vector<int32_t>& frames = reading(state).frames;
  for (const int32_t id : frames) {
    const Frame frame = frames_[static_cast<size_t>(id)];
    const Grammar::Node& node = grammar_->node(frame.place);
    if (grammar_->bytes(node)[byte]) reach(node.next, frame.caller, next);
  }
  const size_t cost = kStepCost + frames.size() / kTestsPerVisit + visits_;
  sort_frames(next);
  const bool dead = next.frames.empty() && !next.accepting;
  const State found = dead ? kDead : state_of(std::move(next));
  Known& known = states_[static_cast<size_t>(state)];
  known.costs[byte] = static_cast<uint16_t>(std::min<size_t>(cost, std::numeric_limits<uint16_t>::max()));
  return known.after[byte] = found;
}

Automaton::State Automaton::state_of(Reading reading) {
  const auto [found, fresh] = state_ids_.emplace(std::move(reading), static_cast<State>(states_.size()));
  if (fresh) {
    Known& known = states_.emplace_back();
    known.reading = &found->first;
    known.after.fill(kUnknown);
  }
  return found->second;
}

}  // namespace fulmar
