// The subset construction, on demand, with call stacks as shared chains of frames.
#include "grammar/automaton.h"

#include <algorithm>
#include <unordered_set>

namespace fulmar {

Automaton::Automaton(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {
  Reading first;
  reach(grammar_->start(), -1, first);
  state_of(std::move(first));
}

Automaton Automaton::rooted_at(State state) const {
  Automaton fresh(grammar_, Empty{});
  const Reading& here = *states_[static_cast<size_t>(state)];
  Reading reading;
  reading.accepting = here.accepting;
  for (const int32_t frame : here.frames) reading.frames.push_back(fresh.copy_frame(*this, frame));
  std::sort(reading.frames.begin(), reading.frames.end());
  fresh.state_of(std::move(reading));
  return fresh;
}

int32_t Automaton::frame_of(Place place, int32_t caller) {
  const uint64_t key = (uint64_t{static_cast<uint32_t>(place)} << 32) | static_cast<uint32_t>(caller);
  const auto [found, fresh] = frame_ids_.emplace(key, static_cast<int32_t>(frames_.size()));
  if (fresh) frames_.push_back({place, caller});
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

// Adds every frame that takes the next byte once `place` has been reached within a call from `caller`.
void Automaton::reach(Place place, int32_t caller, Reading& reading) {
  std::vector<Frame> open{{place, caller}};
  std::unordered_set<int32_t> seen;
  while (!open.empty()) {
    const Frame at = open.back();
    open.pop_back();
    if (!grammar_->useful(at.place)) continue;
    const Grammar::Node& node = grammar_->node(at.place);
    if (node.kind == Grammar::Kind::end) {
      if (at.caller < 0) {
        reading.accepting = true;
      } else {
        open.push_back(frames_[static_cast<size_t>(at.caller)]);
      }
      continue;
    }
    if (node.kind == Grammar::Kind::call) {
      // A call in last position returns to where its caller does: chains then do not grow with repetition.
      const bool last = grammar_->node(node.next).kind == Grammar::Kind::end;
      open.push_back({grammar_->beginning(node.what), last ? at.caller : frame_of(node.next, at.caller)});
      continue;
    }
    const int32_t frame = frame_of(at.place, at.caller);
    if (!seen.insert(frame).second) continue;
    if (node.kind == Grammar::Kind::take) {
      reading.frames.push_back(frame);
    } else {
      open.push_back({node.next, at.caller});
      open.push_back({node.what, at.caller});
    }
  }
}

Automaton::State Automaton::find_step(State state, uint8_t byte) {
  Reading next;
  for (const int32_t id : states_[static_cast<size_t>(state)]->frames) {
    const Frame frame = frames_[static_cast<size_t>(id)];
    const Grammar::Node& node = grammar_->node(frame.place);
    if (grammar_->bytes(node)[byte]) reach(node.next, frame.caller, next);
  }
  std::sort(next.frames.begin(), next.frames.end());
  next.frames.erase(std::unique(next.frames.begin(), next.frames.end()), next.frames.end());
  const bool dead = next.frames.empty() && !next.accepting;
  const State found = dead ? kDead : state_of(std::move(next));
  return steps_[static_cast<size_t>(state)][byte] = found;
}

Automaton::State Automaton::state_of(Reading reading) {
  const auto [found, fresh] = state_ids_.emplace(std::move(reading), static_cast<State>(states_.size()));
  if (fresh) {
    states_.push_back(&found->first);
    steps_.emplace_back().fill(kUnknown);
  }
  return found->second;
}

}  // namespace fulmar
