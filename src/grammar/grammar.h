// A grammar over bytes as a graph: places that take a byte, branch, call a rule or end one, places that
// count, and places that tell what may follow. Knows nothing of JSON and of tokens.
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
// A place in the graph; places are made from the end of a text towards its beginning. Equal places are
// one, but for choices.
using Place = int32_t;
using Rule = int32_t;

class Grammar {
 public:
  enum class Kind : uint8_t { take, choose, branch, call, end, count, tick, enough, free };
  struct Node {
    Kind kind = Kind::end;
    // take: index of the byte set; choose: index of the Choice; branch: the other Place; call: the Rule;
    // count: index of the Count; tick: the state of the Count's lengths behind it; free: how many ticks have
    // to be left, or -1
    int32_t what = -1;
    Place next = -1;
  };
  // A rule that counts its ticks, instead of being written out as often.
  struct Count {
    Rule body = -1;
    int64_t least = 0;
    int64_t most = -1;                       // < 0: without end
    std::shared_ptr<const Lengths> lengths;  // by states of the body; null: any number of ticks may follow
    // Whether a complete text may follow behind `ticks` in `state`.
    bool may_go_on(int64_t ticks, int32_t state) const;
  };

  // `budget` pays for every place that is asked for, and must outlive the building: all calls up to finish().
  explicit Grammar(Budget& budget) : budget_(&budget), nodes_(1) {}

  // The end of whatever rule the place belongs to.
  Place end() const { return 0; }
  Place take(const ByteSet& bytes, Place next);
  Place take_range(unsigned first, unsigned last, Place next);
  // A byte of one of the ways, which hold no byte twice, and on behind it. No ways: nothing.
  using Way = std::pair<Place, ByteSet>;
  Place choose(const std::vector<Way>& ways);
  Place text(std::string_view bytes, Place next);
  // Either the one or the other.
  Place branch(Place one, Place other);
  Place branch(const std::vector<Place>& choices);  // none: nothing
  // A place from which no text is ever complete.
  Place nothing() { return take(ByteSet(), end()); }
  Place call(Rule rule, Place next);
  // One of the texts: a prefix tree, so that what they begin with alike is walked once. At least one text.
  Place one_of(std::vector<std::string> texts, Place next);
  // `body` between `least` and `most` times, then `next`; most < 0: without end. What would be written out
  // more than kMostWrittenOut times is counted.
  Place repeat(Rule body, int64_t least, int64_t most, Place next);
  static constexpr int64_t kMostWrittenOut = 24;

  // `count.body` with its own count of ticks, then `next`. Within the body, but not within what it calls
  // other than in last position, tick() counts one more, before what it counts is taken, and goes on if the
  // count and what may follow in `state` allow; enough() goes on from `least` ticks on.
  Place count(const Count& count, Place next);
  Place tick(int32_t state, Place next) { return add({Kind::tick, state, next}); }
  Place enough(Place next) { return add({Kind::enough, -1, next}); }

  // A choice that takes nothing, and tells of those before it that any kFreeCharacters plain characters (see
  // is_plain) go on from there. With `left`, within the body of a Count of characters: once all that is
  // counted has its least, and while so many more may be counted behind them.
  Place free(int32_t left = -1) { return add({Kind::free, left, end()}); }
  static constexpr int64_t kFreeCharacters = 32;

  // Says that `character` takes one character of a free text, of which `plain` takes those of ASCII that
  // stand for themselves: tokens of such characters are then found without a walk.
  void set_text(Rule character, Place plain) { text_ = {character, plain}; }
  // For a place behind a character of a free text: how many may follow at most, after `ticks`; 0: it is none.
  int64_t further_characters(Place behind, const Count* count, int64_t ticks) const;
  Place plain_characters() const { return text_.plain; }

  // A rule may be called before its beginning is set; one that is never begun takes nothing.
  Rule new_rule();
  void begin(Rule rule, Place place);
  Rule rule(Place place);
  // The rule of this name; `make` returns the place of its beginning where there is none yet.
  template <class Make>
  Rule shared_rule(std::string name, const Make& make) {
    const auto found = shared_rules_.find(name);
    if (found != shared_rules_.end()) return found->second;
    return shared_rules_.emplace(std::move(name), rule(make())).first->second;
  }

  // Checks the whole, with `root` as what a complete text is. Errors: a rule that calls itself before taking
  // a byte, or a root of which no text is ever complete (invalid); more places than kMaxPlaces (unsupported);
  // those of the budget.
  Status finish(Rule root);
  // Places beyond this number, or beyond the budget, are not made any more; finish() then fails.
  static constexpr size_t kMaxPlaces = 200'000;
  bool full() const { return !paid_.ok() || nodes_.size() >= kMaxPlaces; }

  // Bytes that no place tells apart are of one class: below byte_classes().
  uint8_t byte_class(uint8_t byte) const { return byte_class_[byte]; }
  size_t byte_classes() const { return byte_classes_; }
  // What it holds, about.
  size_t bytes() const {
    return nodes_.size() * sizeof(Node) + sets_.size() * sizeof(ByteSet) +
           choices_.size() * (sizeof(Choice) + 4 * sizeof(Way));
  }
  const Node& node(Place place) const { return nodes_[static_cast<size_t>(place)]; }
  const Count& count_of(const Node& node) const { return counts_[static_cast<size_t>(node.what)]; }
  // What a place takes that stands in a reading: a take, a choice, or one that is free.
  const ByteSet& bytes(const Node& node) const {
    static const ByteSet kNone;
    if (node.kind == Kind::choose) return choices_[static_cast<size_t>(node.what)].bytes;
    return node.kind == Kind::take ? sets_[static_cast<size_t>(node.what)] : kNone;
  }
  // Of a place that takes `byte`: where it leads, and the bytes that lead there, too.
  Way way(const Node& node, uint8_t byte) const {
    if (node.kind == Kind::take) return {node.next, bytes(node)};
    const Choice& choice = choices_[static_cast<size_t>(node.what)];
    return choice.ways[choice.way_of[byte]];
  }
  Place beginning(Rule rule) const { return begins_[static_cast<size_t>(rule)]; }
  Place start() const { return beginning(root_); }
  // False where no complete text can follow.
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
  // Of what is there already; emptied by finish().
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
  Place counted_text_ = -1;                  // behind a character that was counted
  std::vector<Place> begins_;
  std::vector<bool> useful_;
  std::array<uint8_t, 256> byte_class_{};
  size_t byte_classes_ = 1;
  Rule root_ = -1;
};

}  // namespace fulmar
