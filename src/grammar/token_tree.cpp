// Building the tree from the sorted vocabulary, and walking it.
#include "grammar/token_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <string_view>

namespace fulmar {
namespace {

// Longer tokens (a vocabulary has none in practice) are left out.
constexpr size_t kLongestToken = 4096;

struct Entry {
  std::string_view bytes;
  int32_t id = 0;
};

// Adds up what the steps of one walk cost, each the first time that it is made: also when an earlier walk has
// paid for it, so that the sum does not depend on who came before.
class CostMeter {
 public:
  explicit CostMeter(size_t most) : most_(most) {}

  size_t used() const { return used_; }
  // False once the sum is beyond the most.
  bool count(const Automaton& automaton, Automaton::State state, uint8_t byte) {
    const auto at = static_cast<size_t>(state);
    if (at >= counted_.size()) counted_.resize(std::max(at + 1, automaton.states()));
    if (counted_[at][byte]) return true;
    counted_[at].set(byte);
    const size_t cost = automaton.cost(state, byte);
    if (cost > most_ - used_) return false;
    used_ += cost;
    return true;
  }

 private:
  const size_t most_;
  size_t used_ = 0;
  std::vector<std::bitset<256>> counted_;  // by state
};

std::vector<Entry> sorted_entries(const Tokenizer& tokenizer) {
  std::vector<Entry> entries;
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (!bytes.empty() && bytes.size() <= kLongestToken) entries.push_back({bytes, id});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  return entries;
}

}  // namespace

const size_t TokenTree::kMaxMarkCost = 500'000;

Result<TokenTree> TokenTree::make(const Tokenizer& tokenizer) {
  TokenTree tree;
  std::bitset<256> single;
  std::vector<size_t> path;  // the open node of each depth
  std::string_view previous;
  const auto close_from = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      tree.nodes_[path.back()].past = static_cast<int32_t>(tree.nodes_.size());
    }
  };
  for (const Entry& entry : sorted_entries(tokenizer)) {
    const auto shared = static_cast<size_t>(
        std::mismatch(entry.bytes.begin(), entry.bytes.end(), previous.begin(), previous.end()).first -
        entry.bytes.begin());
    close_from(shared);
    for (size_t i = shared; i < entry.bytes.size(); ++i) {
      path.push_back(tree.nodes_.size());
      tree.nodes_.push_back({0, static_cast<int32_t>(tree.tokens_.size()), static_cast<uint16_t>(i + 1),
                             static_cast<uint8_t>(entry.bytes[i])});
    }
    if (entry.bytes.size() == 1) single.set(static_cast<unsigned char>(entry.bytes.front()));
    tree.tokens_.push_back(entry.id);
    tree.deepest_ = std::max(tree.deepest_, entry.bytes.size());
    previous = entry.bytes;
  }
  close_from(0);
  // The last one bounds the tokens of the node before it.
  tree.nodes_.push_back({0, static_cast<int32_t>(tree.tokens_.size()), 0, 0});
  tree.words_ = (static_cast<size_t>(tokenizer.vocabulary_size()) + 63) / 64;
  for (size_t byte = 0x20; byte <= 0xF4; ++byte) {
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1;
    if (!in_utf8 || single[byte]) continue;
    return Error{ErrorKind::unsupported,
                 fmt::format("the vocabulary has no token for the single byte 0x{:02x}; constrained answers "
                             "need one for every byte of UTF-8",
                             byte)};
  }
  return tree;
}

void TokenTree::mark_tokens(size_t node, std::span<uint64_t> allowed) const {
  for (int32_t i = nodes_[node].tokens; i < nodes_[node + 1].tokens; ++i) {
    const auto id = static_cast<size_t>(tokens_[static_cast<size_t>(i)]);
    allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
}

size_t TokenTree::mark(Automaton& automaton, Automaton::State state, std::span<uint64_t> allowed) const {
  const size_t count = nodes_.size() - 1;
  for (size_t i = 0; i < count; i = static_cast<size_t>(nodes_[i].past)) {
    if (automaton.step(state, nodes_[i].byte) != Automaton::kDead) mark_tokens(i, allowed);
  }
  CostMeter meter(kMaxMarkCost);
  std::vector<Automaton::State> after(deepest_ + 1);
  after[0] = state;
  size_t visited = 0;
  for (size_t i = 0; i < count; ++visited) {
    const Node& node = nodes_[i];
    const Automaton::State before = after[node.depth - 1u];
    const Automaton::State next = automaton.step(before, node.byte);
    if (!meter.count(automaton, before, node.byte)) break;
    if (next == Automaton::kDead) {
      i = static_cast<size_t>(node.past);
      continue;
    }
    after[node.depth] = next;
    mark_tokens(i, allowed);
    ++i;
  }
  return visited + meter.used();
}

}  // namespace fulmar
