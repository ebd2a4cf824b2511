// Building and checking the graph.
#include "grammar/grammar.h"

#include <algorithm>
#include <limits>

namespace fulmar {

namespace {

// The cost of a place that is asked for, in units of work.
constexpr size_t kPlaceCost = 2;

}  // namespace

// Pays for places. Returns false where no more may be made.
bool Grammar::pay(size_t places) {
  if (full()) return false;
  paid_ = budget_->take(Budget::Item::work, kPlaceCost * places);
  return paid_.ok();
}

Place Grammar::add_new(Node node) {
  if (!pay()) return end();
  nodes_.push_back(node);
  return static_cast<Place>(nodes_.size() - 1);
}

Place Grammar::add(Node node) {
  if (!pay()) return end();
  const Key key{(static_cast<uint64_t>(node.kind) << 32) | static_cast<uint32_t>(node.what), node.next};
  const auto found = node_index_.find(key);
  if (found != node_index_.end()) return found->second;
  const Place place = add_new(node);
  if (!full()) node_index_.emplace(key, place);
  return place;
}

int32_t Grammar::set_of(const ByteSet& bytes) {
  const auto [found, fresh] = set_index_.emplace(bytes, static_cast<int32_t>(sets_.size()));
  if (fresh) sets_.push_back(bytes);
  return found->second;
}

Place Grammar::take(const ByteSet& bytes, Place next) { return add({Kind::take, set_of(bytes), next}); }

Place Grammar::take_range(unsigned first, unsigned last, Place next) {
  const auto [found, fresh] = range_index_.emplace(first << 8 | last, -1);
  if (fresh) {
    ByteSet bytes;
    for (unsigned byte = first; byte <= last; ++byte) bytes.set(byte);
    found->second = set_of(bytes);
  }
  return add({Kind::take, found->second, next});
}

Place Grammar::choose(const std::vector<Way>& ways) {
  if (ways.empty()) return nothing();
  if (ways.size() == 1) return take(ways.front().second, ways.front().first);
  if (!pay(ways.size())) return end();
  Choice choice{ways, {}, {}};
  for (size_t i = 0; i < ways.size(); ++i) {
    choice.bytes |= ways[i].second;
    (void)set_of(ways[i].second);  // splits the classes of bytes
    for (size_t byte = 0; byte < choice.way_of.size(); ++byte) {
      if (ways[i].second[byte]) choice.way_of[byte] = static_cast<uint8_t>(i);
    }
  }
  choices_.push_back(std::move(choice));
  return add_new({Kind::choose, static_cast<int32_t>(choices_.size() - 1), end()});
}

Place Grammar::text(std::string_view bytes, Place next) {
  for (size_t i = bytes.size(); i-- > 0 && !full();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    next = take_range(byte, byte, next);
  }
  return next;
}

Place Grammar::branch(Place one, Place other) { return one == other ? one : add({Kind::branch, other, one}); }

Place Grammar::branch(const std::vector<Place>& choices) {
  if (choices.empty()) return nothing();
  Place all = choices.back();
  for (size_t i = choices.size() - 1; i-- > 0;) all = branch(choices[i], all);
  return all;
}

Place Grammar::call(Rule rule, Place next) { return add({Kind::call, rule, next}); }

Place Grammar::one_of(std::vector<std::string> texts, Place next) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return shared_texts(texts, 0, next);
}

// Takes one of `texts`, which are sorted, distinct, and equal in their first `from` bytes, already taken.
Place Grammar::shared_texts(std::span<const std::string> texts, size_t from, Place next) {
  const std::string& first = texts.front();
  if (texts.size() == 1) return text(std::string_view(first).substr(from), next);
  const std::string& last = texts.back();
  const auto alike = static_cast<size_t>(
      std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first - first.begin());
  std::vector<Place> choices;
  if (first.size() == alike) {
    choices.push_back(next);
    texts = texts.subspan(1);
  }
  while (!texts.empty()) {
    const char byte = texts.front()[alike];
    size_t count = 1;
    while (count < texts.size() && texts[count][alike] == byte) ++count;
    choices.push_back(shared_texts(texts.first(count), alike, next));
    texts = texts.subspan(count);
  }
  return text(std::string_view(first).substr(from, alike - from), branch(choices));
}

// Returns the rule that repeats `body`, at least once, and counts each repetition.
Rule Grammar::counted(Rule body) {
  const auto [found, fresh] = counted_.emplace(body, -1);
  if (!fresh) return found->second;
  const Rule some = found->second = new_rule();
  const Place behind = branch(enough(end()), call(some, end()));
  begin(some, tick(0, call(body, behind)));
  if (body == text_.character) counted_text_ = behind;
  return some;
}

Place Grammar::repeat(Rule body, int64_t least, int64_t most, Place next) {
  if (most == 0) return next;
  const bool bounded = least > 0 || most > 0;
  const bool is_text = body == text_.character;
  if ((bounded && is_text) || std::max(least, most) > kMostWrittenOut) {
    const Place some = count({counted(body), std::max<int64_t>(1, least), most, nullptr}, next);
    return least > 0 ? some : branch(next, some);
  }
  Place place = next;
  if (most < 0) {
    const auto [found, fresh] = loops_.emplace(Key{static_cast<uint64_t>(body), next}, end());
    if (fresh && !full()) {
      found->second = add_new({Kind::branch, next, end()});
      nodes_[static_cast<size_t>(found->second)].next = call(body, found->second);
      if (is_text) endless_texts_.insert(found->second);
    }
    place = found->second;
  }
  for (int64_t i = least; i < most && !full(); ++i) place = branch(call(body, place), next);
  for (int64_t i = 0; i < least && !full(); ++i) place = call(body, place);
  return place;
}

Place Grammar::count(const Count& count, Place next) {
  const auto [found, fresh] =
      count_index_.emplace(std::tuple(count.body, count.least, count.most, count.lengths.get()),
                           static_cast<int32_t>(counts_.size()));
  if (fresh) counts_.push_back(count);
  return add({Kind::count, found->second, next});
}

bool Grammar::Count::may_go_on(int64_t ticks, int32_t state) const {
  if (most >= 0 && ticks > most) return false;
  return !lengths || lengths->any(state, std::max<int64_t>(0, least - ticks), most < 0 ? -1 : most - ticks);
}

int64_t Grammar::further_characters(Place behind, const Count* count, int64_t ticks) const {
  constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();
  if (endless_texts_.contains(behind)) return kEndless;
  if (behind != counted_text_ || !count) return 0;
  return count->most < 0 ? kEndless : count->most - ticks;
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

bool Grammar::can_finish(const Node& node) const {
  switch (node.kind) {
    case Kind::take:
      return useful(node.next) && bytes(node).any();
    case Kind::choose: {
      const auto& ways = choices_[static_cast<size_t>(node.what)].ways;
      return std::any_of(ways.begin(), ways.end(), [&](const Way& way) { return useful(way.first); });
    }
    case Kind::branch:
      return useful(node.next) || useful(node.what);
    case Kind::count:
      return useful(node.next) && useful(beginning(count_of(node).body));
    case Kind::tick:
    case Kind::enough:
      return useful(node.next);
    case Kind::call:
      return useful(node.next) && useful(beginning(node.what));
    case Kind::free:
    case Kind::end:
      break;
  }
  return true;
}

// Marks useful places from the ends backwards: revisits a place only when one after it has become useful.
void Grammar::find_useful() {
  struct Edge {
    Place from;
    int32_t more;  // the next edge to the same place; -1: none
  };
  std::vector<Edge> edges;
  std::vector<int32_t> into(nodes_.size(), -1);
  const auto connect = [&](Place from, Place to) {
    edges.push_back({from, into[static_cast<size_t>(to)]});
    into[static_cast<size_t>(to)] = static_cast<int32_t>(edges.size() - 1);
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& at = nodes_[i];
    if (at.kind == Kind::end) continue;
    if (at.kind == Kind::choose) {
      for (const Way& way : choices_[static_cast<size_t>(at.what)].ways) {
        connect(static_cast<Place>(i), way.first);
      }
      continue;
    }
    connect(static_cast<Place>(i), at.next);
    if (at.kind == Kind::branch) connect(static_cast<Place>(i), at.what);
    if (at.kind == Kind::call) connect(static_cast<Place>(i), beginning(at.what));
    if (at.kind == Kind::count) connect(static_cast<Place>(i), beginning(count_of(at).body));
  }
  useful_.assign(nodes_.size(), false);
  std::vector<Place> open;
  const auto look = [&](Place place) {
    if (useful(place) || !can_finish(node(place))) return;
    useful_[static_cast<size_t>(place)] = true;
    open.push_back(place);
  };
  look(end());
  while (!open.empty()) {
    const Place place = open.back();
    open.pop_back();
    for (int32_t at = into[static_cast<size_t>(place)]; at >= 0; at = edges[static_cast<size_t>(at)].more) {
      look(edges[static_cast<size_t>(at)].from);
    }
  }
}

// Removes the bytes of ways that lead to no complete text from their choices.
void Grammar::drop_useless_ways() {
  for (Choice& choice : choices_) {
    for (const Way& way : choice.ways) {
      if (!useful(way.first)) choice.bytes &= ~way.second;
    }
  }
}

// Computes the classes of bytes: each byte set splits the classes of which it holds a part.
void Grammar::find_byte_classes() {
  for (const ByteSet& set : sets_) {
    std::array<int, 512> renamed;  // by class, and whether the set holds the byte
    renamed.fill(-1);
    int count = 0;
    for (size_t byte = 0; byte < set.size(); ++byte) {
      int& name = renamed[byte_class_[byte] * 2u + (set[byte] ? 1u : 0u)];
      if (name < 0) name = count++;
      byte_class_[byte] = static_cast<uint8_t>(name);
    }
    byte_classes_ = static_cast<size_t>(count);
  }
}

// Returns whether a rule can reach its own beginning without taking a byte. Every rule takes at least a byte,
// so what follows a call does not matter.
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
      if (at.kind == Kind::count) onward = {beginning(count_of(at).body)};
      if (at.kind == Kind::tick || at.kind == Kind::enough) onward = {at.next};
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
  for (Place& first : begins_) {
    if (first < 0) first = nothing();
  }
  node_index_ = {};
  set_index_ = {};
  range_index_ = {};
  shared_rules_ = {};
  loops_ = {};
  count_index_ = {};
  counted_ = {};
  budget_ = nullptr;
  FULMAR_TRY(paid_);
  if (full()) {
    return Error{ErrorKind::unsupported,
                 "the schema is too large to compile: it takes more than " + std::to_string(kMaxPlaces) +
                     " places of a grammar, which is the limit; use lower bounds on lengths and counts"};
  }
  if (calls_itself_at_once()) return Error{ErrorKind::invalid, "a definition refers to nothing but itself"};
  find_byte_classes();
  find_useful();
  drop_useless_ways();
  if (!useful(start())) {
    return Error{ErrorKind::invalid,
                 "no value fits: keywords contradict each other, or nothing ever ends the recursion"};
  }
  return {};
}

}  // namespace fulmar
