// The subset construction, on demand, with call stacks as shared chains of frames.
#include "grammar/automaton.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace fulmar {
namespace {

// Mixes 64 bits, bijectively (the finalizer of SplitMix64).
uint64_t mixed(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

// Testing a frame is that much cheaper than looking at a place.
constexpr size_t kTestsPerVisit = 8;
// The cost of a step in addition: finding or making the state it leads to.
constexpr size_t kStepCost = 16;

uint64_t frame_hash(Place place, int32_t caller, int32_t ticks) {
  const uint64_t place_and_caller =
      (uint64_t{static_cast<uint32_t>(place)} << 32) | static_cast<uint32_t>(caller);
  return mixed(place_and_caller + uint64_t{static_cast<uint32_t>(ticks)} * 0x9E3779B97F4A7C15u);
}

template <class Each>
void for_each(const ByteSet& bytes, const Each& each) {
  static const ByteSet kWord(~uint64_t{0});
  for (unsigned from = 0; from < bytes.size(); from += 64) {
    for (uint64_t word = ((bytes >> from) & kWord).to_ullong(); word != 0; word &= word - 1) {
      each(from + static_cast<unsigned>(std::countr_zero(word)));
    }
  }
}

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

void Automaton::grow_frame_table() {
  if (frames_.size() * 2 < frame_table_.size()) return;
  frame_table_.assign(std::max<size_t>(256, frame_table_.size() * 4), -1);
  const size_t last = frame_table_.size() - 1;
  for (size_t id = 0; id < frames_.size(); ++id) {
    const Frame& frame = frames_[id];
    size_t at = frame_hash(frame.place, frame.caller, frame.ticks) & last;
    while (frame_table_[at] >= 0) at = (at + 1) & last;
    frame_table_[at] = static_cast<int32_t>(id);
  }
}

int32_t Automaton::frame_of(Place place, int32_t caller, int32_t ticks) {
  grow_frame_table();
  const size_t last = frame_table_.size() - 1;
  size_t at = frame_hash(place, caller, ticks) & last;
  for (; frame_table_[at] >= 0; at = (at + 1) & last) {
    const Frame& known = frames_[static_cast<size_t>(frame_table_[at])];
    if (known.place == place && known.caller == caller && known.ticks == ticks) return frame_table_[at];
  }
  const auto id = frame_table_[at] = static_cast<int32_t>(frames_.size());
  const uint64_t above = caller < 0 ? 0 : frames_[static_cast<size_t>(caller)].print;
  const uint64_t print =
      mixed(mixed(above + static_cast<uint32_t>(place) + 1) + static_cast<uint32_t>(ticks));
  frames_.push_back({place, caller, ticks, id, print});
  met_in_.push_back(0);
  const int32_t caller_alike = caller < 0 ? caller : frames_[static_cast<size_t>(caller)].alike;
  const int32_t far = far_ticks(frames_.back());
  if (caller_alike == caller && far == ticks) return id;
  const int32_t alike = frame_of(place, caller_alike, far);
  frames_[static_cast<size_t>(id)].alike = alike;
  return id;
}

// Returns the ticks, or a number below 0 for all ticks that nothing within kFarTicks distinguishes.
int32_t Automaton::far_ticks(const Frame& frame) const {
  constexpr int32_t kAboveLeast = -1;
  constexpr int32_t kBelowLeast = -2;  // and below, by what is left of a period
  if (frame.ticks < 0) return frame.ticks;
  const Grammar::Count& count = grammar_->count_of(grammar_->node(frame.place));
  const int64_t margin = kFarTicks + (count.lengths ? count.lengths->settled() + count.lengths->period() : 0);
  if (count.most >= 0 && frame.ticks + margin > count.most) return frame.ticks;
  if (frame.ticks >= count.least) return count.most < 0 ? frame.ticks : kAboveLeast;
  if (frame.ticks + margin > count.least) return frame.ticks;
  const int64_t period = count.lengths ? count.lengths->period() : 1;
  return kBelowLeast - static_cast<int32_t>((count.least - frame.ticks) % period);
}

int32_t Automaton::copy_frame(const Automaton& from, int32_t frame) {
  std::vector<const Frame*> chain;  // the innermost first
  for (int32_t at = frame; at >= 0; at = chain.back()->caller) {
    chain.push_back(&from.frames_[static_cast<size_t>(at)]);
  }
  int32_t copy = -1;
  for (size_t i = chain.size(); i-- > 0;) copy = frame_of(chain[i]->place, copy, chain[i]->ticks);
  return copy;
}

int32_t Automaton::near_future(State state) {
  Known& known = states_[static_cast<size_t>(state)];
  if (known.near_future >= 0) return known.near_future;
  Reading alike;
  for (const int32_t frame : known.reading->frames) {
    alike.frames.push_back(frames_[static_cast<size_t>(frame)].alike);
  }
  std::sort(alike.frames.begin(), alike.frames.end());
  alike.frames.erase(std::unique(alike.frames.begin(), alike.frames.end()), alike.frames.end());
  return known.near_future =
             futures_.emplace(std::move(alike), static_cast<int32_t>(futures_.size())).first->second;
}

// Returns whether the frame says that any kFreeCharacters plain characters may follow.
bool Automaton::is_free(const Frame& frame) const {
  const Grammar::Node& node = grammar_->node(frame.place);
  if (node.kind != Grammar::Kind::free) return false;
  if (node.what < 0) return true;
  const Frame& counter = frames_[static_cast<size_t>(frame.caller)];
  const Grammar::Count& count = grammar_->count_of(grammar_->node(counter.place));
  return counter.ticks + 1 >= count.least &&
         (count.most < 0 || counter.ticks + kFreeCharacters + node.what <= count.most);
}

Automaton::FreeText Automaton::free_text(State state) const {
  for (const int32_t id : reading(state).frames) {
    if (is_free(frames_[static_cast<size_t>(id)])) return {.characters = kFreeCharacters};
  }
  const Place plain = grammar_->plain_characters();
  FreeText text;
  int32_t loop = -1;  // the frame after the free text's character
  for (const int32_t id : reading(state).frames) {
    const Frame& frame = frames_[static_cast<size_t>(id)];
    if (frame.place != plain || frame.caller < 0) continue;
    const Frame& behind = frames_[static_cast<size_t>(frame.caller)];
    const Frame* counter = behind.caller < 0 ? nullptr : &frames_[static_cast<size_t>(behind.caller)];
    const bool counts = counter && counter->ticks >= 0;
    // The character that is due has been counted already.
    const int64_t characters = grammar_->further_characters(
        behind.place, counts ? &grammar_->count_of(grammar_->node(counter->place)) : nullptr,
        counts ? counter->ticks - 1 : 0);
    if (characters > text.characters) {
      text.characters = characters;
      loop = frame.caller;
    }
  }
  if (loop < 0) return text;
  const ByteSet& ascii = grammar_->bytes(grammar_->node(plain));
  text.nothing_else = true;
  for (const int32_t id : reading(state).frames) {
    const Frame& frame = frames_[static_cast<size_t>(id)];
    const ByteSet& bytes = grammar_->bytes(grammar_->node(frame.place));
    const bool may_begin = (bytes & ascii).any() || (bytes >> 0x80).any();
    if (frame.caller != loop && may_begin) text.nothing_else = false;
  }
  return text;
}

std::optional<uint8_t> Automaton::only_byte(State state) const {
  if (accepting(state)) return std::nullopt;
  ByteSet bytes;
  for (const int32_t id : reading(state).frames) {
    bytes |= grammar_->bytes(grammar_->node(frames_[static_cast<size_t>(id)].place));
    if (bytes.count() > 1) return std::nullopt;
  }
  std::optional<uint8_t> only;
  for_each(bytes, [&](unsigned byte) { only = static_cast<uint8_t>(byte); });
  return only;
}

bool Automaton::is_free(State state) {
  std::optional<bool>& known = states_[static_cast<size_t>(state)].free;
  if (!known) known = free_text(state).characters >= kFreeCharacters;
  return *known;
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

// Adds every frame that takes the next byte once `place` has been reached in a call from `caller`. The first
// of a branch is added first, so that where there are too many frames the later ones are left out.
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
        const bool counts = back.ticks != kNoTicks;
        open_.push_back({counts ? grammar_->node(back.place).next : back.place, back.caller});
      }
      continue;
    }
    if (node.kind == Grammar::Kind::count) {
      const Grammar::Count& count = grammar_->count_of(node);
      if (count.may_go_on(0, 0)) {
        open_.push_back({grammar_->beginning(count.body), frame_of(at.place, at.caller, 0)});
      }
      continue;
    }
    if (node.kind == Grammar::Kind::tick) {
      reach_tick(node, at.caller);
      continue;
    }
    if (node.kind == Grammar::Kind::enough) {
      if (has_enough(at.caller)) open_.push_back({node.next, at.caller});
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
    if (node.kind != Grammar::Kind::branch) {
      next.frames.push_back(frame);
    } else {
      open_.push_back({node.what, at.caller});
      open_.push_back({node.next, at.caller});
    }
  }
}

// Continues after a tick with one more in the caller, which is a Count's frame.
void Automaton::reach_tick(const Grammar::Node& node, int32_t caller) {
  const Frame frame = frames_[static_cast<size_t>(caller)];
  const Grammar::Count& count = grammar_->count_of(grammar_->node(frame.place));
  const int64_t ticks = frame.ticks + int64_t{1};
  if (!count.may_go_on(ticks, node.what)) return;
  // Without a most, all counts from the least on are equivalent.
  const int64_t kept = count.most < 0 ? std::min(ticks, count.least) : ticks;
  open_.push_back({node.next, frame_of(frame.place, frame.caller, static_cast<int32_t>(kept))});
}

bool Automaton::has_enough(int32_t caller) const {
  const Frame& frame = frames_[static_cast<size_t>(caller)];
  return frame.ticks >= grammar_->count_of(grammar_->node(frame.place)).least;
}

size_t Automaton::bytes() const {
  // Readings are named twice at most: as states, and as what is near of them.
  return grammar_->bytes() + frames_.size() * (sizeof(Frame) + sizeof(uint32_t)) +
         frame_table_.size() * sizeof(int32_t) + 2 * frames_read_ * sizeof(int32_t) +
         states_.size() * (sizeof(Known) + grammar_->byte_classes() * sizeof(Step) + 2 * sizeof(Reading));
}

Automaton::State Automaton::find_step(State state, uint8_t byte) {
  Reading next;
  begin_reading();
  ByteSet alike;  // bytes that the same frames take
  alike.set();
  const std::vector<int32_t>& frames = reading(state).frames;
  for (const int32_t id : frames) {
    const Frame frame = frames_[static_cast<size_t>(id)];
    const Grammar::Node& node = grammar_->node(frame.place);
    const ByteSet& bytes = grammar_->bytes(node);
    if (!bytes[byte]) {
      alike &= ~bytes;
      continue;
    }
    const auto [to, lead_there] = grammar_->way(node, byte);
    alike &= lead_there;
    reach(to, frame.caller, next);
  }
  const size_t cost = kStepCost + frames.size() / kTestsPerVisit + visits_;
  sort_frames(next);
  const bool dead = next.frames.empty() && !next.accepting;
  const State found = dead ? kDead : state_of(std::move(next));
  Known& known = states_[static_cast<size_t>(state)];
  Step step{found, static_cast<uint16_t>(std::min<size_t>(cost, std::numeric_limits<uint16_t>::max())), byte};
  bool first = true;
  for_each(alike, [&](unsigned one) {
    if (first) step.first_alike = static_cast<uint8_t>(one);
    first = false;
    known.steps[grammar_->byte_class(static_cast<uint8_t>(one))] = step;
  });
  return found;
}

Automaton::State Automaton::state_of(Reading reading) {
  const auto [found, fresh] = state_ids_.emplace(std::move(reading), static_cast<State>(states_.size()));
  if (fresh) {
    frames_read_ += found->first.frames.size();
    Known& known = states_.emplace_back();
    known.reading = &found->first;
    known.steps = std::make_unique<Step[]>(grammar_->byte_classes());
  }
  return found->second;
}

}  // namespace fulmar
