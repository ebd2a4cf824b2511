// The configuration of a Hugging Face PEFT adapter: what it says that changes the result, and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

enum class PeftMethod : uint8_t { lora, dora, miss, miss_mini, bat };

struct PeftConfig {
  PeftMethod method = PeftMethod::lora;
  int64_t rank = 0;
  double alpha = 8;
  bool root_scale = false;  // use_rslora: s = alpha / sqrt(r)
  int64_t mini_rank = 1;    // columns of a MiSS mini block
  // For modules whose path is the text or ends in "." and the text; the first that fits counts.
  std::vector<std::pair<std::string, int64_t>> rank_of;
  std::vector<std::pair<std::string, double>> alpha_of;

  int64_t rank_at(std::string_view module) const;
  // Returns s of a low-rank pair; MiSS has none, so 1.
  double scale_at(std::string_view module) const;
};

// Reads adapter_config.json. Refuses by name what would change the result and is not known, patterns that are
// not plain text, and adapters whose training changed the base model. Members without effect are ignored.
Result<PeftConfig> read_peft_config(const std::string& text);

}  // namespace fulmar
