// Cutting a stream of bytes into lines and forgetting the oldest.
#include "control/log_ring.h"

#include <algorithm>
#include <utility>

namespace fulmar {

void LogRing::append(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  for (const char byte : bytes) {
    const bool second_of_pair = byte == '\n' && after_carriage_return_;
    after_carriage_return_ = byte == '\r';
    if (second_of_pair) continue;
    if (byte == '\n' || byte == '\r') {
      take_line();
      continue;
    }
    open_.push_back(byte);
    if (open_.size() >= kMostLineBytes) take_line();
  }
}

void LogRing::close_line() {
  std::lock_guard lock(mutex_);
  if (!open_.empty()) take_line();
}

std::vector<std::string> LogRing::tail(int64_t count) const {
  if (count <= 0) return {};
  std::lock_guard lock(mutex_);
  const size_t taken = static_cast<size_t>(std::min(count, static_cast<int64_t>(lines_.size())));
  return {lines_.end() - static_cast<std::ptrdiff_t>(taken), lines_.end()};
}

void LogRing::take_line() {
  lines_.push_back(std::exchange(open_, {}));
  if (lines_.size() > most_lines_) lines_.pop_front();
}

}  // namespace fulmar
