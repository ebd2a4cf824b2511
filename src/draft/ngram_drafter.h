// Drafts without a model (prompt lookup): the continuation of the longest earlier occurrence of the last
// tokens, in the prompt, in the output or in an output that the client has predicted. Pure; knows no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fulmar {

// Bounds on memory and on work per token.
struct NgramLimits {
  size_t window = 8192;    // tokens that are searched; up to twice as many are kept
  size_t longest = 16;     // tokens of a match that are compared
  size_t candidates = 16;  // latest occurrences of the last kShortestMatch tokens that are compared
};

// Shorter matches predict too little.
constexpr size_t kShortestMatch = 2;

class NgramDrafter {
 public:
  // Starts with a prompt. `prediction`: what the output may begin with; empty: none.
  NgramDrafter(std::span<const int32_t> prediction, std::span<const int32_t> prompt, NgramLimits limits = {});

  // Appends the next token of the output.
  void append(int32_t token);

  // Where a draft came from.
  struct Match {
    size_t length = 0;       // tokens that matched, at most `longest`; 0: no draft
    bool predicted = false;  // it is taken from the prediction
  };
  // Fills `draft` with at most `most` tokens that may follow, and returns where they came from. While the
  // output follows the prediction, that is drafted; else the continuation of the longest match, the latest of
  // equal ones. A continuation that reaches the end of the text repeats itself.
  Match propose(size_t most, std::vector<int32_t>& draft) const;

 private:
  static constexpr int32_t kBreak = -1;  // between prediction and prompt: no token, matches nothing
  static constexpr int32_t kNowhere = -1;

  void index(size_t at);
  void index_all();
  void drop_oldest();
  size_t bucket(size_t at) const;
  size_t match_length(size_t at) const;
  std::optional<size_t> longest_match(size_t& length) const;

  NgramLimits limits_;
  std::vector<int32_t> text_;      // prediction, break, prompt, output
  std::vector<int32_t> previous_;  // by position: the one before it in the same bucket
  std::vector<int32_t> latest_;    // by bucket: the last position
  size_t predicted_ = 0;           // length of the prediction
  std::optional<size_t> follows_;  // while the output follows the prediction: its next position
};

}  // namespace fulmar
