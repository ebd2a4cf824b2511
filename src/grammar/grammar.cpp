// Building and checking the graph.
#include "grammar/grammar.h"

#include <algorithm>

namespace fulmar {

Grammar::Grammar() : nodes_(1) {}

Place Grammar::add(Node node) {
  if (full()) return end();
  nodes_.push_back(node);
  return static_cast<Place>(nodes_.size() - 1);
}

Place Grammar::take(const ByteSet& bytes, Place next) {
  const auto [found, fresh] = set_index_.emplace(bytes.to_string(), static_cast<int32_t>(sets_.size()));
  if (fresh) sets_.push_back(bytes);
  return add({Kind::take, found->second, next});
}

Place Grammar::take_range(unsigned first, unsigned last, Place next) {
  ByteSet bytes;
  for (unsigned byte = first; byte <= last; ++byte) bytes.set(byte);
  return take(bytes, next);
}

Place Grammar::text(std::string_view bytes, Place next) {
  for (size_t i = bytes.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    next = take_range(byte, byte, next);
  }
  return next;
}

Place Grammar::branch(Place one, Place other) { return add({Kind::branch, other, one}); }

Place Grammar::branch(const std::vector<Place>& choices) {
  Place all = choices.back();
  for (size_t i = choices.size() - 1; i-- > 0;) all = branch(choices[i], all);
  return all;
}

Place Grammar::call(Rule rule, Place next) { return add({Kind::call, rule, next}); }

Place Grammar::repeat(Rule body, int64_t least, int64_t most, Place next) {
  Place place = next;
  if (most < 0) {
    const Place again = add({Kind::branch, next, end()});
    const Place once = call(body, again);
    nodes_[static_cast<size_t>(again)].next = once;
    place = again;
  }
  for (int64_t i = least; i < most && !full(); ++i) place = branch(call(body, place), next);
  for (int64_t i = 0; i < least && !full(); ++i) place = call(body, place);
  return place;
}

Rule Grammar::new_rule() {
  begins_.push_back(-1);
  return static_cast<Rule>(begins_.size() - 1);
}

void Grammar::begin(Rule rule, Place place) { begins_[static_cast<size_t>(rule)] = place; }

Rule Grammar::rule(Place place) {
  const Rule made = new_rule();
  begin(made, place);
  return made;
}

// Grows the set of places from which an end can be reached until it stands.
void Grammar::find_useful() {
  useful_.assign(nodes_.size(), false);
  const auto can_finish = [&](const Node& node) {
    switch (node.kind) {
      case Kind::take:
        return useful(node.next) && bytes(node).any();
      case Kind::branch:
        return useful(node.next) || useful(node.what);
      case Kind::call:
        return useful(node.next) && useful(beginning(node.what));
      case Kind::end:
        break;
    }
    return true;
  };
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (useful_[i] || !can_finish(nodes_[i])) continue;
      useful_[i] = grown = true;
    }
  }
}

// Whether a rule can reach its own beginning without a byte taken. Rules never end at once (each takes at
// least a byte), so that what follows a call is of no concern.
bool Grammar::calls_itself_at_once() const {
  enum class Mark : uint8_t { fresh, open, done };
  std::vector<Mark> marks(nodes_.size(), Mark::fresh);
  std::vector<Place> path;
  for (const Place first : begins_) {
    path.push_back(first);
    while (!path.empty()) {
      const Place place = path.back();
      Mark& mark = marks[static_cast<size_t>(place)];
      if (mark != Mark::fresh) {
        mark = Mark::done;
        path.pop_back();
        continue;
      }
      mark = Mark::open;
      const Node& at = node(place);
      std::vector<Place> onward;
      if (at.kind == Kind::branch) onward = {at.next, at.what};
      if (at.kind == Kind::call) onward = {beginning(at.what)};
      for (const Place next : onward) {
        const Mark seen = marks[static_cast<size_t>(next)];
        if (seen == Mark::open) return true;
        if (seen == Mark::fresh) path.push_back(next);
      }
    }
  }
  return false;
}

Status Grammar::finish(Rule root) {
  root_ = root;
  if (full()) {
    return Error{ErrorKind::invalid,
                 "the grammar needs more than " + std::to_string(kMaxPlaces) + " places; use lower bounds"};
  }
  if (calls_itself_at_once()) return Error{ErrorKind::invalid, "a definition refers to nothing but itself"};
  find_useful();
  if (!useful(start())) return Error{ErrorKind::invalid, "no value fits: nothing ever ends the recursion"};
  return {};
}

}  // namespace fulmar
