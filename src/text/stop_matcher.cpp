// Aho and Corasick's automaton (1975): the node after each byte is the longest end of the text that begins a
// stop text, which is exactly what must be held back.
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace fulmar {

size_t begun_at_end(std::string_view text, std::string_view mark) {
  size_t length = std::min(text.size(), mark.size() - 1);
  while (!text.ends_with(mark.substr(0, length))) --length;
  return length;
}

StopTexts::StopTexts(const std::vector<std::string>& texts) {
  build_trie(texts);
  link_suffixes();
}

// Builds the trie level by level over the sorted texts: a node is a range of texts with a common beginning.
void StopTexts::build_trie(const std::vector<std::string>& texts) {
  std::vector<std::string_view> sorted(texts.begin(), texts.end());
  std::erase_if(sorted, [](std::string_view text) { return text.empty(); });
  std::sort(sorted.begin(), sorted.end());
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> ranges{{0, sorted.size()}};
  nodes_.emplace_back();
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end] = ranges[node];
    const uint32_t depth = nodes_[node].depth;
    if (begin < end && sorted[begin].size() == depth) nodes_[node].matched = depth;
    while (begin < end && sorted[begin].size() == depth) ++begin;
    nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = sorted[begin][depth];
      size_t next = begin;
      while (next < end && sorted[next][depth] == byte) ++next;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.push_back({.depth = depth + 1});
      ranges.push_back({begin, next});
      begin = next;
    }
    nodes_[node].edge_count = static_cast<uint32_t>(edges_.size()) - nodes_[node].first_edge;
  }
}

void StopTexts::link_suffixes() {
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    for (uint32_t i = 0; i < nodes_[node].edge_count; ++i) {
      const Edge edge = edges_[nodes_[node].first_edge + i];
      Node& target = nodes_[edge.node];
      target.fail = node == 0 ? 0 : step(nodes_[node].fail, edge.byte);
      if (target.matched == 0) target.matched = nodes_[target.fail].matched;
    }
  }
}

uint32_t StopTexts::child(uint32_t node, unsigned char byte) const {
  const auto begin = edges_.begin() + nodes_[node].first_edge;
  const auto end = begin + nodes_[node].edge_count;
  const auto edge =
      std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char wanted) { return e.byte < wanted; });
  return edge != end && edge->byte == byte ? edge->node : 0;
}

uint32_t StopTexts::step(uint32_t node, unsigned char byte) const {
  for (;;) {
    if (const uint32_t next = child(node, byte)) return next;
    if (node == 0) return 0;
    node = nodes_[node].fail;
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopTexts> texts, bool include_stop)
    : texts_(std::move(texts)), include_stop_(include_stop) {}

StopMatcher::StopMatcher(const std::vector<std::string>& texts, bool include_stop)
    : StopMatcher(std::make_shared<const StopTexts>(texts), include_stop) {}

std::string StopMatcher::push(std::string_view bytes) {
  if (hit_) return {};
  const size_t held_from = position_ - held_.size();
  held_ += bytes;
  for (const char byte : bytes) {
    node_ = texts_->step(node_, static_cast<unsigned char>(byte));
    ++position_;
    const StopTexts::Node& node = texts_->nodes_[node_];
    if (node.matched > 0 && (!best_ || position_ - node.matched < best_->start)) {
      const size_t start = position_ - node.matched;
      best_ = StopHit{start, position_, held_.substr(start - held_from, node.matched)};
    }
    if (best_ && position_ - node.depth >= best_->start) {
      return decide(held_from);
    }
  }
  return release(held_.size() - texts_->nodes_[node_].depth);
}

std::string StopMatcher::finish() {
  if (hit_) return {};
  if (best_) return decide(position_ - held_.size());
  return release(held_.size());
}

std::optional<size_t> StopMatcher::pending_start() const {
  if (hit_ || held_.empty()) return std::nullopt;
  return position_ - held_.size();
}

std::string StopMatcher::decide(size_t held_from) {
  hit_ = std::exchange(best_, std::nullopt);
  std::string released = release((include_stop_ ? hit_->end : hit_->start) - held_from);
  held_.clear();
  return released;
}

std::string StopMatcher::release(size_t length) {
  std::string released = held_.substr(0, length);
  held_.erase(0, length);
  return released;
}

}  // namespace fulmar
