// A grammar over bytes as a graph of places: they take a byte, branch, call or end a rule, count, or say what
// may follow. A function that returns a place is described by what it takes. Knows no JSON and no tokens.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"
#include "grammar/lengths.h"

namespace fulmar {

using ByteSet = std::bitset<256>;
// A place in the graph. Places are made from the end of a text towards its beginning. Equal places are one,
// except for choices.
using Place = int32_t;
using Rule = int32_t;

class Grammar {
 public:
  enum class Kind : uint8_t { take, choose, branch, call, end, count, tick, enough, free };
  struct Node {
    Kind kind = Kind::end;
    // take: index of the byte set; choose: index of the Choice; branch: the other Place; call: the Rule;
    // count: index of the Count; tick: the state of the Count's lengths after it; free: how many ticks must
    // be left, or -1
    int32_t what = -1;
    Place next = -1;
  };
  // A rule that is repeated by counting its ticks instead of being written out.
  struct Count {
    Rule body = -1;
    int64_t least = 0;
    int64_t most = -1;                       // < 0: without end
    std::shared_ptr<const Lengths> lengths;  // by states of the body; null: any number of ticks may follow
    // Returns whether a complete text may follow after `ticks` in `state`.
    bool may_go_on(int64_t ticks, int32_t state) const;
  };

  // Begins a grammar. `budget` pays for every place asked for, and must outlive all calls up to finish().
  explicit Grammar(Budget& budget) : budget_(&budget), nodes_(1) {}

  // Ends the rule that the place belongs to.
  Place end() const { return 0; }
  Place take(const ByteSet& bytes, Place next);
  Place take_range(unsigned first, unsigned last, Place next);
  // Takes a byte of one of the ways, which share no byte, then goes to its place. No ways: takes nothing.
  using Way = std::pair<Place, ByteSet>;
  Place choose(const std::vector<Way>& ways);
  Place text(std::string_view bytes, Place next);
  // Takes what either of the places takes.
  Place branch(Place one, Place other);
  Place branch(const std::vector<Place>& choices);  // none: nothing
  // Takes no text at all: none is ever complete from there.
  Place nothing() { return take(ByteSet(), end()); }
  Place call(Rule rule, Place next);
  // Takes one of the texts, at least one: a prefix tree, in which common beginnings are walked once.
  Place one_of(std::vector<std::string> texts, Place next);
  // Takes `body` between `least` and `most` times, then `next`; most < 0: without end. Counts instead of
  // writing out more than kMostWrittenOut repetitions.
  Place repeat(Rule body, int64_t least, int64_t most, Place next);
  static constexpr int64_t kMostWrittenOut = 24;

  // Takes `count.body` with its own count of ticks, then `next`. In the body, but not in what it calls other
  // than in last position, tick() adds one to the count before it takes what is counted, and goes on only if
  // the count and what may follow in `state` allow; enough() goes on from `least` ticks on.
  Place count(const Count& count, Place next);
  Place tick(int32_t state, Place next) { return add({Kind::tick, state, next}); }
  Place enough(Place next) { return add({Kind::enough, -1, next}); }

  // Marks a choice: takes nothing, but says that any kFreeCharacters plain characters (see is_plain) may
  // follow the places before it. With `left`, in the body of a Count of characters: only once everything
  // counted has reached its least, and while `left` more may be counted after those characters.
  Place free(int32_t left = -1) { return add({Kind::free, left, end()}); }
  static constexpr int64_t kFreeCharacters = 32;

  // Declares that `character` takes one character of a free text, and `plain` the ASCII ones among them that
  // stand for themselves: tokens of such characters are then found without a walk.
  void set_text(Rule character, Place plain) { text_ = {character, plain}; }
  // Returns how many characters may follow a place after one of a free text, after `ticks`; 0: it is none.
  int64_t further_characters(Place behind, const Count* count, int64_t ticks) const;
  Place plain_characters() const { return text_.plain; }

  // Makes a rule, which may be called before its beginning is set; one that is never begun takes nothing.
  Rule new_rule();
  void begin(Rule rule, Place place);
  Rule rule(Place place);
  // Returns the rule of this name; if there is none yet, makes it with `make`, which returns its beginning.
  template <class Make>
  Rule shared_rule(std::string name, const Make& make) {
    const auto found = shared_rules_.find(name);
    if (found != shared_rules_.end()) return found->second;
    return shared_rules_.emplace(std::move(name), rule(make())).first->second;
  }

  // Checks the grammar and fixes `root` as the rule of a complete text. Errors: invalid, for a rule that
  // calls itself before taking a byte, or a root of which no text is ever complete; unsupported, for more
  // than kMaxPlaces places; those of the budget.
  Status finish(Rule root);
  // No places are made beyond this number, or beyond the budget; finish() then fails.
  static constexpr size_t kMaxPlaces = 200'000;
  bool full() const { return !paid_.ok() || nodes_.size() >= kMaxPlaces; }

  // Returns the class of a byte, below byte_classes(): bytes that no place tells apart share one.
  uint8_t byte_class(uint8_t byte) const { return byte_class_[byte]; }
  size_t byte_classes() const { return byte_classes_; }
  // Returns the approximate bytes of memory held.
  size_t bytes() const {
    return nodes_.size() * sizeof(Node) + sets_.size() * sizeof(ByteSet) +
           choices_.size() * (sizeof(Choice) + 4 * sizeof(Way));
  }
  const Node& node(Place place) const { return nodes_[static_cast<size_t>(place)]; }
  const Count& count_of(const Node& node) const { return counts_[static_cast<size_t>(node.what)]; }
  // Returns the bytes that a place of a reading takes: a take, a choice, or one that is free (none).
  const ByteSet& bytes(const Node& node) const {
    static const ByteSet kNone;
    if (node.kind == Kind::choose) return choices_[static_cast<size_t>(node.what)].bytes;
    return node.kind == Kind::take ? sets_[static_cast<size_t>(node.what)] : kNone;
  }
  // Returns where a place that takes `byte` goes, and all bytes that lead there.
  Way way(const Node& node, uint8_t byte) const {
    if (node.kind == Kind::take) return {node.next, bytes(node)};
    const Choice& choice = choices_[static_cast<size_t>(node.what)];
    return choice.ways[choice.way_of[byte]];
  }
  Place beginning(Rule rule) const { return begins_[static_cast<size_t>(rule)]; }
  Place start() const { return beginning(root_); }
  // Returns whether any complete text can follow.
  bool useful(Place place) const { return useful_[static_cast<size_t>(place)]; }

 private:
  struct Key {
    uint64_t kind_and_what;
    Place next;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return (key.kind_and_what * 0x9E3779B97F4A7C15u) ^
             (static_cast<uint64_t>(key.next) * 0xC2B2AE3D27D4EB4Fu);
    }
  };

  struct Choice {
    std::vector<Way> ways;
    ByteSet bytes;  // of all ways that are useful
    std::array<uint8_t, 256> way_of{};
  };

  bool pay(size_t places = 1);
  int32_t set_of(const ByteSet& bytes);
  Place add(Node node);
  Place add_new(Node node);
  Place shared_texts(std::span<const std::string> texts, size_t from, Place next);
  void find_useful();
  void drop_useless_ways();
  void find_byte_classes();
  bool can_finish(const Node& node) const;
  Rule counted(Rule body);
  bool calls_itself_at_once() const;

  Budget* budget_;  // null once finished
  Status paid_;     // the first refusal of the budget
  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<Choice> choices_;
  // Indices of what exists already; emptied by finish().
  std::unordered_map<Key, Place, KeyHash> node_index_;
  std::unordered_map<ByteSet, int32_t> set_index_;
  std::unordered_map<unsigned, int32_t> range_index_;  // sets of bytes that follow each other, by both ends
  std::unordered_map<std::string, Rule> shared_rules_;
  std::unordered_map<Key, Place, KeyHash> loops_;  // by body and what follows
  std::map<std::tuple<Rule, int64_t, int64_t, const Lengths*>, int32_t> count_index_;
  std::unordered_map<Rule, Rule> counted_;  // what counts its repetitions, by body
  std::vector<Count> counts_;
  struct Text {
    Rule character = -1;
    Place plain = -1;
  };
  Text text_;
  std::unordered_set<Place> endless_texts_;  // where loops over text_.character begin again
  Place counted_text_ = -1;                  // after a character that was counted
  std::vector<Place> begins_;
  std::vector<bool> useful_;
  std::array<uint8_t, 256> byte_class_{};
  size_t byte_classes_ = 1;
  Rule root_ = -1;
};

}  // namespace fulmar
