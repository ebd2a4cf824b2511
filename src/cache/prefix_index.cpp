#include "cache/prefix_index.h"

#include <algorithm>
#include <utility>

namespace fulmar {

// The tokens of the edge that leads here, and what hangs below.
struct PrefixIndex::Node {
  std::vector<int32_t> edge;
  std::map<int32_t, std::unique_ptr<Node>> children;  // by the first token of their edge
  std::optional<Id> id;
  Node* parent = nullptr;
};

namespace {

size_t common(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first - a.begin());
}

}  // namespace

PrefixIndex::PrefixIndex() : root_(std::make_unique<Node>()) {}
PrefixIndex::~PrefixIndex() = default;

PrefixIndex::Found PrefixIndex::find(std::span<const int32_t> tokens, size_t limit) const {
  tokens = tokens.first(std::min(tokens.size(), limit));
  Found found;
  const Node* node = root_.get();
  while (found.shared < tokens.size()) {
    const auto child = node->children.find(tokens[found.shared]);
    if (child == node->children.end()) break;
    node = child->second.get();
    const size_t same = common(node->edge, tokens.subspan(found.shared));
    found.shared += same;
    if (same < node->edge.size()) break;
    if (node->id) found.match = Match{*node->id, found.shared};
  }
  return found;
}

// Cuts the child's edge after `at` tokens; returns the node at the cut.
PrefixIndex::Node* PrefixIndex::split(Node* parent, int32_t first, size_t at) {
  std::unique_ptr<Node>& place = parent->children.at(first);
  auto upper = std::make_unique<Node>();
  upper->parent = parent;
  upper->edge.assign(place->edge.begin(), place->edge.begin() + static_cast<ptrdiff_t>(at));
  std::unique_ptr<Node> lower = std::move(place);
  lower->edge.erase(lower->edge.begin(), lower->edge.begin() + static_cast<ptrdiff_t>(at));
  lower->parent = upper.get();
  const int32_t next = lower->edge.front();
  upper->children.emplace(next, std::move(lower));
  place = std::move(upper);
  return place.get();
}

std::optional<PrefixIndex::Id> PrefixIndex::insert(std::span<const int32_t> tokens, Id id) {
  Node* node = root_.get();
  while (!tokens.empty()) {
    const auto child = node->children.find(tokens.front());
    if (child == node->children.end()) {
      auto leaf = std::make_unique<Node>();
      leaf->parent = node;
      leaf->edge.assign(tokens.begin(), tokens.end());
      node = node->children.emplace(tokens.front(), std::move(leaf)).first->second.get();
      break;
    }
    const size_t same = common(child->second->edge, tokens);
    node = same < child->second->edge.size() ? split(node, tokens.front(), same) : child->second.get();
    tokens = tokens.subspan(same);
  }
  const std::optional<Id> replaced = std::exchange(node->id, id);
  if (replaced) place_.erase(*replaced);
  place_[id] = node;
  return replaced;
}

bool PrefixIndex::erase(Id id) {
  const auto found = place_.find(id);
  if (found == place_.end()) return false;
  Node* node = found->second;
  place_.erase(found);
  node->id.reset();
  prune(node);
  return true;
}

// Removes branches that no snapshot needs and joins the chains that removed siblings leave.
void PrefixIndex::prune(Node* node) {
  while (node != root_.get() && !node->id && node->children.empty()) {
    Node* parent = node->parent;
    parent->children.erase(node->edge.front());
    node = parent;
  }
  if (node == root_.get() || node->id || node->children.size() != 1) return;
  std::unique_ptr<Node> only = std::move(node->children.begin()->second);
  only->edge.insert(only->edge.begin(), node->edge.begin(), node->edge.end());
  only->parent = node->parent;
  const int32_t first = only->edge.front();
  node->parent->children[first] = std::move(only);  // destroys `node`
}

}  // namespace fulmar
