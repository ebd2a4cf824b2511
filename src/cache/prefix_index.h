// A radix tree over token sequences that finds the saved state of a prompt's longest beginning. Pure data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace fulmar {

class PrefixIndex {
 public:
  using Id = uint64_t;  // of a snapshot; the caller chooses distinct ones

  struct Match {
    Id id = 0;
    size_t length = 0;  // tokens it covers
  };
  struct Found {
    std::optional<Match> match;  // longest snapshot that covers a beginning of the tokens
    size_t shared = 0;           // tokens shared with any sequence in the tree, covered by a snapshot or not
  };

  PrefixIndex();
  ~PrefixIndex();

  // Finds the longest match, at most `limit` tokens deep.
  Found find(std::span<const int32_t> tokens, size_t limit) const;
  // Attaches a snapshot after these tokens; returns the one that it replaces.
  std::optional<Id> insert(std::span<const int32_t> tokens, Id id);
  bool erase(Id id);
  size_t size() const { return place_.size(); }

 private:
  struct Node;
  static Node* split(Node* parent, int32_t first, size_t at);
  void prune(Node* node);

  std::unique_ptr<Node> root_;
  std::unordered_map<Id, Node*> place_;
};

}  // namespace fulmar
