// A grammar over bytes as a graph: places that take a byte, branch, call a rule or end one. Knows nothing of
// JSON and of tokens.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/budget.h"

namespace fulmar {

using ByteSet = std::bitset<256>;
// A place in the graph; places are made from the end of a text towards its beginning. Equal places are one.
using Place = int32_t;
using Rule = int32_t;

class Grammar {
 public:
  enum class Kind : uint8_t { take, branch, call, end };
  struct Node {
    Kind kind = Kind::end;
    int32_t what = -1;  // take: index of the byte set; branch: the other Place; call: the Rule
    Place next = -1;
  };

  // `budget` pays for every place that is asked for, and must outlive the building: all calls up to finish().
  explicit Grammar(Budget& budget) : budget_(&budget), nodes_(1) {}

  // The end of whatever rule the place belongs to.
  Place end() const { return 0; }
  Place take(const ByteSet& bytes, Place next);
  Place take_range(unsigned first, unsigned last, Place next);
  Place text(std::string_view bytes, Place next);
  // Either the one or the other.
  Place branch(Place one, Place other);
  Place branch(const std::vector<Place>& choices);  // none: nothing
  // A place from which no text is ever complete.
  Place nothing() { return take(ByteSet(), end()); }
  Place call(Rule rule, Place next);
  // One of the texts: a prefix tree, so that what they begin with alike is walked once. At least one text.
  Place one_of(std::vector<std::string> texts, Place next);
  // `body` between `least` and `most` times, then `next`; most < 0: without end.
  Place repeat(Rule body, int64_t least, int64_t most, Place next);

  // A rule may be called before its beginning is set.
  Rule new_rule();
  void begin(Rule rule, Place place);
  Rule rule(Place place);

  // Checks the whole, with `root` as what a complete text is. Errors: a rule that calls itself before taking
  // a byte, or a root of which no text is ever complete (invalid); more places than kMaxPlaces (unsupported);
  // those of the budget.
  Status finish(Rule root);
  // Places beyond this number, or beyond the budget, are not made any more; finish() then fails.
  static constexpr size_t kMaxPlaces = 200'000;
  bool full() const { return !paid_.ok() || nodes_.size() >= kMaxPlaces; }

  const Node& node(Place place) const { return nodes_[static_cast<size_t>(place)]; }
  const ByteSet& bytes(const Node& node) const { return sets_[static_cast<size_t>(node.what)]; }
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

  bool pay();
  Place add(Node node);
  Place add_new(Node node);
  Place shared_texts(std::span<const std::string> texts, size_t from, Place next);
  void find_useful();
  bool can_finish(const Node& node) const;
  bool calls_itself_at_once() const;

  Budget* budget_;  // null once finished
  Status paid_;     // the first refusal of the budget
  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  // Of what is there already; emptied by finish().
  std::unordered_map<Key, Place, KeyHash> node_index_;
  std::unordered_map<ByteSet, int32_t> set_index_;
  std::unordered_map<Key, Place, KeyHash> loops_;  // by body and what follows
  std::vector<Place> begins_;
  std::vector<bool> useful_;
  Rule root_ = -1;
};

}  // namespace fulmar
