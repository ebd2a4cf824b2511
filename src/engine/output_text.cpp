#include "engine/output_text.h"

#include <algorithm>
#include <utility>

namespace fulmar {

OutputText::OutputText(std::shared_ptr<const StopTexts> texts, bool include_stop, bool keep_records,
                       std::vector<std::string> until)
    : until_(std::move(until)), include_stop_(include_stop), keep_records_(keep_records) {
  if (texts && !texts->empty()) matcher_.emplace(std::move(texts), include_stop);
}

// Returns the text that stop texts release. Output that may be the beginning of until_.front() is held back,
// since no part of it counts as a stop.
std::string OutputText::match(std::string_view bytes) {
  if (!matcher_ || unstoppable_) return std::string(bytes);
  if (until_.empty()) return matcher_->push(bytes);
  unmatched_ += bytes;
  std::string passed;
  while (true) {
    const std::string& next = until_.front();
    const bool last = until_.size() == 1;
    const size_t at = unmatched_.find(next);
    const bool found = at != std::string::npos;
    const size_t known =
        found ? at + (last ? 0 : next.size()) : unmatched_.size() - begun_at_end(unmatched_, next);
    passed += matcher_->push(std::string_view(unmatched_).substr(0, known));
    unmatched_.erase(0, known);
    if (!found) return passed;
    until_.erase(until_.begin());
    if (!last) continue;
    passed += matcher_->finish();
    unstoppable_ = !hit();
    if (unstoppable_) passed += std::exchange(unmatched_, {});
    return passed;
  }
}

std::string OutputText::push(std::string_view bytes, TokenRecord record) {
  end_.push_back((end_.empty() ? 0 : end_.back()) + bytes.size());
  if (keep_records_) records_.push_back(std::move(record));
  const std::string passed = match(bytes);
  released_ += passed.size();
  return utf8_.push(passed);
}

std::string OutputText::finish() {
  if (std::exchange(finished_, true)) return {};
  std::string text;
  if (matcher_ && !unstoppable_) {
    std::string passed = matcher_->push(std::exchange(unmatched_, {}));
    passed += matcher_->finish();  // after push: operands of one expression are unordered
    released_ += passed.size();
    text = utf8_.push(passed);
  }
  utf8_.finish();
  return text;
}

std::vector<TokenRecord> OutputText::take_records() {
  const size_t first = end_.size() - records_.size();
  size_t count = 0;
  while (count < records_.size()) {
    const size_t end = end_[first + count];
    const bool shown = hit() ? first + count < tokens_shown() : end <= released_;
    if (!shown) break;
    count++;
  }
  std::vector<TokenRecord> taken(std::make_move_iterator(records_.begin()),
                                 std::make_move_iterator(records_.begin() + static_cast<ptrdiff_t>(count)));
  records_.erase(records_.begin(), records_.begin() + static_cast<ptrdiff_t>(count));
  return taken;
}

size_t OutputText::token_at(size_t offset) const {
  return static_cast<size_t>(std::upper_bound(end_.begin(), end_.end(), offset) - end_.begin());
}

std::optional<size_t> OutputText::pending_token() const {
  if (!matcher_ || unstoppable_) return std::nullopt;
  const auto start = matcher_->pending_start();
  if (start) return token_at(*start);
  if (unmatched_.empty()) return std::nullopt;
  return token_at(end_.back() - unmatched_.size());
}

size_t OutputText::tokens_shown() const {
  if (!hit()) return end_.size();
  const size_t shown_bytes = include_stop_ ? matcher_->hit()->end : matcher_->hit()->start;
  if (shown_bytes == 0) return 0;
  return std::min(token_at(shown_bytes - 1) + 1, end_.size());
}

}  // namespace fulmar
