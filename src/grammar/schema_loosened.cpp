// Which texts are kept where there are many.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/loosened.h"

namespace fulmar {

void Loosened::add(std::string text) {
  if (std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return;
  if (texts_.size() < kMost) {
    texts_.push_back(std::move(text));
  } else {
    ++more_;
  }
}

std::vector<std::string> Loosened::texts() const {
  std::vector<std::string> texts = texts_;
  if (more_ > 0) texts.back() = fmt::format("{} more keywords are not kept", more_ + 1);
  return texts;
}

}  // namespace fulmar
