// Finds the first of many stop texts (Aho-Corasick) in output that arrives in pieces, and decides which bytes
// may be shown. Pure; works on bytes; knows nothing of tokens or characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// The stop texts of one request as an automaton, shared by its rows. Immutable. Building takes time and
// memory proportional to the bytes of all texts; a step takes constant time on average, however many texts
// there are.
class StopTexts {
 public:
  // Builds the automaton; empty texts are ignored.
  explicit StopTexts(const std::vector<std::string>& texts);

  bool empty() const { return nodes_.size() == 1; }

 private:
  friend class StopMatcher;

  struct Node {
    uint32_t first_edge = 0;  // into edges_; a node's edges are contiguous, sorted by byte
    uint32_t edge_count = 0;
    uint32_t fail = 0;     // the longest proper suffix of this node's text that is a node, too
    uint32_t depth = 0;    // bytes of the node's text
    uint32_t matched = 0;  // length of the longest stop text that ends here; 0: none
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };

  uint32_t child(uint32_t node, unsigned char byte) const;  // 0: none
  uint32_t step(uint32_t node, unsigned char byte) const;
  void build_trie(const std::vector<std::string>& texts);
  void link_suffixes();

  std::vector<Node> nodes_;  // [0] is the root; in order of depth
  std::vector<Edge> edges_;
};

// Returns the length of the longest end of `text` that begins `mark` and is shorter than it (not empty).
size_t begun_at_end(std::string_view text, std::string_view mark);

// Offsets count bytes from the first one pushed.
struct StopHit {
  size_t start = 0;
  size_t end = 0;
  std::string text;  // the stop text
};

// The match that starts earliest wins, even when another is complete before it; of those that start at the
// same byte the shortest. Bytes are held back as long as they may belong to the winning match.
class StopMatcher {
 public:
  // Makes a matcher; with include_stop the matched text is shown, too.
  StopMatcher(std::shared_ptr<const StopTexts> texts, bool include_stop);
  StopMatcher(const std::vector<std::string>& texts, bool include_stop);

  // Adds bytes and returns those that may be shown. After a hit all further bytes are ignored.
  std::string push(std::string_view bytes);
  // Ends the text: decides what is still open, which may give a hit, and returns the rest to show.
  std::string finish();

  const std::optional<StopHit>& hit() const { return hit_; }
  // Returns the start of the earliest match that is still possible while undecided. A state to return to must
  // be the one before the token that holds this byte.
  std::optional<size_t> pending_start() const;

 private:
  // Decides on the best match; returns the bytes to show. held_from: offset of the first to hold back.
  std::string decide(size_t held_from);
  std::string release(size_t length);

  std::shared_ptr<const StopTexts> texts_;
  bool include_stop_;
  uint32_t node_ = 0;
  size_t position_ = 0;          // bytes pushed
  std::string held_;             // the last held_.size() bytes before position_
  std::optional<StopHit> best_;  // complete, but a match that starts earlier is still possible
  std::optional<StopHit> hit_;
};

}  // namespace fulmar
