// Building the tree from the sorted vocabulary, and walking it.
#include "grammar/token_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <functional>
#include <string_view>

#include "base/utf8.h"
#include "grammar/code_points.h"

namespace fulmar {
namespace {

// Longer tokens (a vocabulary has none in practice) are left out.
constexpr auto kLongestToken = static_cast<size_t>(Automaton::kFarTicks);

// Adds up what the steps of one walk cost, each the first time that it or one that leads alike is made: also
// when an earlier walk has paid for it, so that the sum does not depend on who came before.
class CostMeter {
 public:
  explicit CostMeter(size_t most) : most_(most) {}

  size_t used() const { return used_; }
  // Counts a step's cost. Returns false once the sum is beyond the most.
  bool count(const Automaton& automaton, Automaton::State state, uint8_t byte) {
    const auto at = static_cast<size_t>(state);
    if (at >= counted_.size()) counted_.resize(std::max(at + 1, automaton.states()));
    const uint8_t first = automaton.first_alike(state, byte);
    if (counted_[at][first]) return true;
    counted_[at].set(first);
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

// Returns the number of characters of a token that any free text accepts anywhere; 0: it is no such token.
size_t plain_characters(std::string_view bytes) {
  if (!is_utf8(bytes)) return 0;
  const std::vector<uint32_t> points = code_points_of(bytes);
  return std::all_of(points.begin(), points.end(), is_plain) ? points.size() : 0;
}

// Returns where the plain characters at a token's end begin, of which at most `most` count.
size_t plain_from(std::string_view bytes, size_t most) {
  size_t from = bytes.size();
  for (size_t i = bytes.size(); i-- > 0;) {
    const bool begins = (static_cast<unsigned char>(bytes[i]) & 0xC0) != 0x80;
    if (!begins) continue;
    const size_t characters = plain_characters(bytes.substr(i));
    if (characters == 0 || characters > most) break;
    from = i;
  }
  return from;
}

}  // namespace

const size_t TokenTree::kMaxMarkCost = 200'000;

TokenTree::Tree TokenTree::tree_of(const std::vector<VocabularyToken>& entries) {
  Tree tree;
  std::vector<size_t> path;  // the open node of each depth
  std::string_view previous;
  const auto close_from = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      tree.nodes[path.back()].past = static_cast<int32_t>(tree.nodes.size());
    }
  };
  for (const VocabularyToken& entry : entries) {
    const auto shared = static_cast<size_t>(
        std::mismatch(entry.bytes.begin(), entry.bytes.end(), previous.begin(), previous.end()).first -
        entry.bytes.begin());
    close_from(shared);
    for (size_t i = shared; i < entry.bytes.size(); ++i) {
      path.push_back(tree.nodes.size());
      tree.nodes.push_back({0, static_cast<int32_t>(tree.tokens.size()), static_cast<uint16_t>(i + 1),
                            static_cast<uint8_t>(entry.bytes[i]), true});
    }
    const size_t plain = plain_from(entry.bytes, kFreeCharacters);
    for (size_t depth = 1; depth < plain; ++depth) tree.nodes[path[depth - 1]].plain_below = false;
    tree.tokens.push_back(entry.id);
    tree.deepest = std::max(tree.deepest, entry.bytes.size());
    previous = entry.bytes;
  }
  close_from(0);
  tree.nodes.push_back({0, static_cast<int32_t>(tree.tokens.size()), 0, 0, true});
  return tree;
}

Result<TokenTree> TokenTree::make(const Tokenizer& tokenizer) {
  TokenTree tree;
  std::vector<VocabularyToken> entries;
  std::vector<VocabularyToken> not_free;
  std::bitset<256> single;
  tree.words_ = (static_cast<size_t>(tokenizer.vocabulary_size()) + 63) / 64;
  for (auto& bits : tree.free_) bits.assign(tree.words_, 0);
  tree.others_.assign(tree.words_, ~uint64_t{0});
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string_view bytes = tokenizer.bytes(id);
    if (bytes.empty() || bytes.size() > kLongestToken) continue;
    entries.push_back({bytes, id});
    tree.others_[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
  }
  std::sort(entries.begin(), entries.end(), [](const VocabularyToken& a, const VocabularyToken& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id;
  });
  for (const VocabularyToken& entry : entries) {
    if (entry.bytes.size() == 1) single.set(static_cast<unsigned char>(entry.bytes.front()));
    const size_t characters = plain_characters(entry.bytes);
    if (characters == 0 || characters > kFreeCharacters) not_free.push_back(entry);
    for (size_t i = characters; i > 0 && i <= kFreeCharacters; ++i) {
      tree.free_[i - 1][static_cast<size_t>(entry.id) / 64] |= uint64_t{1} << (entry.id % 64);
    }
  }
  tree.all_ = tree_of(entries);
  tree.not_free_ = tree_of(not_free);
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

void TokenTree::Tree::mark_tokens(size_t node, size_t past, std::span<uint64_t> allowed) const {
  for (int32_t i = nodes[node].tokens; i < nodes[past].tokens; ++i) {
    const auto id = static_cast<size_t>(tokens[static_cast<size_t>(i)]);
    allowed[id / 64] |= uint64_t{1} << (id % 64);
  }
}

size_t TokenTree::Tree::mark(Automaton& automaton, Automaton::State state,
                             std::span<uint64_t> allowed) const {
  const size_t count = nodes.size() - 1;
  for (size_t i = 0; i < count; i = static_cast<size_t>(nodes[i].past)) {
    if (automaton.step(state, nodes[i].byte) != Automaton::kDead) mark_tokens(i, i + 1, allowed);
  }
  CostMeter meter(kMaxMarkCost);
  std::vector<Automaton::State> after(deepest + 1);
  after[0] = state;
  size_t visited = 0;
  for (size_t i = 0; i < count; ++visited) {
    const Node& node = nodes[i];
    const Automaton::State before = after[node.depth - 1u];
    const Automaton::State next = automaton.step(before, node.byte);
    if (!meter.count(automaton, before, node.byte)) break;
    if (next == Automaton::kDead) {
      i = static_cast<size_t>(node.past);
      continue;
    }
    after[node.depth] = next;
    const bool all = node.plain_below && automaton.is_free(next);
    const size_t past = all ? static_cast<size_t>(node.past) : i + 1;
    mark_tokens(i, past, allowed);
    i = past;
  }
  return visited + meter.used();
}

// Returns whether a token that ends at the nodes from `from` up to `past`, children of one node and what is
// below them, may follow `state`. True also where that is too costly to find out.
bool TokenTree::Tree::takes_any(Automaton& automaton, Automaton::State state, size_t from,
                                size_t past) const {
  if (from == past) return false;
  const size_t above = nodes[from].depth - 1u;
  std::vector<Automaton::State> after(deepest + 1);
  after[above] = state;
  size_t cost = 0;
  for (size_t i = from; i < past;) {
    const Node& node = nodes[i];
    const Automaton::State before = after[node.depth - 1u];
    const Automaton::State next = automaton.step(before, node.byte);
    cost += automaton.cost(before, node.byte);
    if (cost > kMaxForcedCost) return true;
    if (next == Automaton::kDead) {
      i = static_cast<size_t>(node.past);
      continue;
    }
    if (node.tokens < nodes[i + 1].tokens) return true;
    after[node.depth] = next;
    ++i;
  }
  return false;
}

std::optional<int32_t> TokenTree::Tree::forced(Automaton& automaton, Automaton::State state) const {
  std::optional<int32_t> longest;
  size_t from = 0;  // the nodes by which a token may go on
  size_t past = nodes.size() - 1;
  while (state != Automaton::kDead) {
    const auto byte = automaton.only_byte(state);
    if (!byte) return longest && !takes_any(automaton, state, from, past) ? longest : std::nullopt;
    size_t node = from;
    while (node < past && nodes[node].byte != *byte) node = static_cast<size_t>(nodes[node].past);
    if (node == past) return longest;
    if (nodes[node].tokens < nodes[node + 1].tokens)
      longest = tokens[static_cast<size_t>(nodes[node].tokens)];
    state = automaton.step(state, *byte);
    from = node + 1;
    past = static_cast<size_t>(nodes[node].past);
  }
  return std::nullopt;
}

void TokenTree::mark_others(std::span<uint64_t> allowed) const {
  std::transform(others_.begin(), others_.end(), allowed.begin(), allowed.begin(), std::bit_or<>());
}

size_t TokenTree::mark(Automaton& automaton, Automaton::State state, std::span<uint64_t> allowed) const {
  const Automaton::FreeText text = automaton.free_text(state);
  const bool known =
      text.characters >= static_cast<int64_t>(kFreeCharacters) || (text.characters > 0 && text.nothing_else);
  if (!known) return all_.mark(automaton, state, allowed);
  const auto longest = std::min<int64_t>(text.characters, kFreeCharacters);
  const auto& free = free_[static_cast<size_t>(longest) - 1];
  std::copy(free.begin(), free.end(), allowed.begin());
  return free.size() + not_free_.mark(automaton, state, allowed);
}

}  // namespace fulmar
