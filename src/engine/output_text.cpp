#include "engine/output_text.h"

#include <algorithm>
#include <utility>

namespace fulmar {

OutputText::OutputText(std::shared_ptr<const StopTexts> texts, bool include_stop, bool keep_records)
    : include_stop_(include_stop), keep_records_(keep_records) {
  if (texts && !texts->empty()) matcher_.emplace(std::move(texts), include_stop);
}

std::string OutputText::push(std::string_view bytes, TokenRecord record) {
  end_.push_back((end_.empty() ? 0 : end_.back()) + bytes.size());
  if (keep_records_) records_.push_back(std::move(record));
  const std::string passed = matcher_ ? matcher_->push(bytes) : std::string(bytes);
  released_ += passed.size();
  return utf8_.push(passed);
}

std::string OutputText::finish() {
  if (std::exchange(finished_, true)) return {};
  std::string text;
  if (matcher_) {
    const std::string passed = matcher_->finish();
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
  if (!matcher_) return std::nullopt;
  const auto start = matcher_->pending_start();
  if (!start) return std::nullopt;
  return token_at(*start);
}

size_t OutputText::tokens_shown() const {
  if (!hit()) return end_.size();
  const size_t shown_bytes = include_stop_ ? matcher_->hit()->end : matcher_->hit()->start;
  if (shown_bytes == 0) return 0;
  return std::min(token_at(shown_bytes - 1) + 1, end_.size());
}

}  // namespace fulmar
