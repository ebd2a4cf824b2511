// A grammar over bytes as a graph: places that take a byte, branch, call a rule or end one. Knows nothing of
// JSON and of tokens.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fulmar {

using ByteSet = std::bitset<256>;
// A place in the graph; places are made from the end of a text towards its beginning.
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

  Grammar();

  // The end of whatever rule the place belongs to.
  Place end() const { return 0; }
  Place take(const ByteSet& bytes, Place next);
  Place take_range(unsigned first, unsigned last, Place next);
  Place text(std::string_view bytes, Place next);
  // Either the one or the other.
  Place branch(Place one, Place other);
  Place branch(const std::vector<Place>& choices);  // at least one
  Place call(Rule rule, Place next);
  // `body` between `least` and `most` times, then `next`; most < 0: without end.
  Place repeat(Rule body, int64_t least, int64_t most, Place next);

  // A rule may be called before its beginning is set.
  Rule new_rule();
  void begin(Rule rule, Place place);
  Rule rule(Place place);

  // Checks the whole, with `root` as what a complete text is. Errors (invalid): a rule that calls itself
  // before taking a byte; a root of which no text is ever complete; more places than kMaxPlaces.
  Status finish(Rule root);
  // Places beyond this number are not made any more; finish() then fails.
  static constexpr size_t kMaxPlaces = 200'000;
  bool full() const { return nodes_.size() >= kMaxPlaces; }

  const Node& node(Place place) const { return nodes_[static_cast<size_t>(place)]; }
  const ByteSet& bytes(const Node& node) const { return sets_[static_cast<size_t>(node.what)]; }
  Place beginning(Rule rule) const { return begins_[static_cast<size_t>(rule)]; }
  Place start() const { return beginning(root_); }
  // False where no complete text can follow.
  bool useful(Place place) const { return useful_[static_cast<size_t>(place)]; }

 private:
  Place add(Node node);
  void find_useful();
  bool calls_itself_at_once() const;

  std::vector<Node> nodes_;
  std::vector<ByteSet> sets_;
  std::map<std::string, int32_t> set_index_;
  std::vector<Place> begins_;
  std::vector<bool> useful_;
  Rule root_ = -1;
};

}  // namespace fulmar
