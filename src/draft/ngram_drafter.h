// Drafts without a model (prompt lookup): what followed the longest earlier occurrence of the last tokens, in
// the prompt, in the output or in an output that the client has predicted. Pure; knows no engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fulmar {

// Bounds of memory and of work per token.
struct NgramLimits {
  size_t window = 8192;    // tokens looked through; up to twice as many are kept
  size_t longest = 16;     // tokens of a match that are compared
  size_t candidates = 16;  // latest occurrences of the last kShortestMatch tokens that are compared
};

// A shorter one says too little about what follows.
constexpr size_t kShortestMatch = 2;

class NgramDrafter {
 public:
  // `prediction`: what the output may begin with; empty: nothing is known of it.
  NgramDrafter(std::span<const int32_t> prediction, std::span<const int32_t> prompt, NgramLimits limits = {});

  // The next token of the output.
  void append(int32_t token);

  // How a draft came about.
  struct Match {
    size_t length = 0;       // tokens that matched, at most `longest`; 0: there is no draft
    bool predicted = false;  // it is taken from the prediction
  };
  // Puts at most `most` tokens that may follow into `draft`, which is cleared first. While the output is as
  // predicted, the prediction; else the continuation of the longest match, the latest of equal ones. A
  // continuation that reaches the end of the text goes on with itself.
  Match propose(size_t most, std::vector<int32_t>& draft) const;

 private:
  static constexpr int32_t kBreak = -1;  // between prediction and prompt: no token, and in no match
  static constexpr int32_t kNowhere = -1;

  void index(size_t at);
  void index_all();
  void drop_oldest();
  size_t bucket(size_t at) const;
  size_t match_length(size_t at) const;
  std::optional<size_t> longest_match(size_t& length) const;

  NgramLimits limits_;
  std::vector<int32_t> text_;  // prediction, break, prompt, output
  std::vector<int32_t>
      previous_;                 // by position: the last one before it whose two tokens fall into its bucket
  std::vector<int32_t> latest_;  // by bucket: the last position
  size_t predicted_ = 0;         // positions that belong to the prediction
  std::optional<size_t> follows_;  // while the output is as predicted: where it goes on
};

}  // namespace fulmar
