// Building the double array: children are placed node by node into the first free units that suit.
#include "text/byte_trie.h"

#include <algorithm>

namespace fulmar {

class ByteTrieBuilder {
 public:
  ByteTrieBuilder(std::vector<ByteTrie::Unit>& units, std::vector<ByteTrie::Key> keys)
      : units_(units), keys_(std::move(keys)) {
    std::sort(keys_.begin(), keys_.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    grow(kBytes);
    first_free_ = kBytes;
  }

  void build() {
    std::vector<Node> open{{ByteTrie::kRoot, 0, 0, keys_.size()}};
    while (!open.empty()) {
      Node node = open.back();
      open.pop_back();
      place_children(node, open);
    }
    grow(units_.size() + kBytes);
  }

 private:
  static constexpr size_t kBytes = 256;
  static constexpr int kTries = 64;  // free units looked at per node, so that no key set can stall building

  // The keys begin..end-1 share their first `depth` bytes, which lead to `unit`.
  struct Node {
    int32_t unit;
    size_t depth;
    size_t begin, end;
  };

  void grow(size_t size) {
    units_.resize(size);
    used_.resize(size, false);
  }

  void place_children(Node node, std::vector<Node>& open) {
    if (node.begin < node.end && keys_[node.begin].bytes.size() == node.depth) {
      units_[static_cast<size_t>(node.unit)].id = keys_[node.begin].id;
      ++node.begin;
    }
    if (node.begin == node.end) return;
    children_.clear();
    for (size_t i = node.begin; i < node.end;) {
      const char byte = keys_[i].bytes[node.depth];
      const size_t from = i;
      while (i < node.end && keys_[i].bytes[node.depth] == byte) ++i;
      children_.push_back({static_cast<unsigned char>(byte), from, i});
    }
    const size_t base = find_base();
    units_[static_cast<size_t>(node.unit)].base = static_cast<int32_t>(base);
    for (const Child& child : children_) {
      const size_t at = base + child.byte;
      used_[at] = true;
      units_[at].parent = node.unit;
      open.push_back({static_cast<int32_t>(at), node.depth + 1, child.begin, child.end});
    }
  }

  // Returns a base at which the units of all children are free and not among the first 256.
  size_t find_base() {
    const size_t lowest = children_.front().byte;
    const size_t span = children_.back().byte + 1;
    while (first_free_ < used_.size() && used_[first_free_]) ++first_free_;
    size_t at = first_free_;
    for (int tries = 0; tries < kTries && at < used_.size(); ++at) {
      if (used_[at]) continue;
      ++tries;
      const size_t base = at - std::min(at, lowest);
      if (fits(base)) return reserve(base, span);
    }
    return reserve(used_.size() - lowest, span);
  }

  bool fits(size_t base) const {
    return std::all_of(children_.begin(), children_.end(), [&](const Child& child) {
      const size_t at = base + child.byte;
      return at >= kBytes && (at >= used_.size() || !used_[at]);
    });
  }

  size_t reserve(size_t base, size_t span) {
    if (base + span > used_.size()) grow(base + span);
    return base;
  }

  struct Child {
    size_t byte;
    size_t begin, end;
  };

  std::vector<ByteTrie::Unit>& units_;
  std::vector<ByteTrie::Key> keys_;
  std::vector<bool> used_;
  std::vector<Child> children_;  // of the node at hand, by byte
  size_t first_free_ = 0;        // no unit between the first 256 and this one is free
};

ByteTrie::ByteTrie(std::vector<Key> keys) { ByteTrieBuilder(units_, std::move(keys)).build(); }

}  // namespace fulmar
