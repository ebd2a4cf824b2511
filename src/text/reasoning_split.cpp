// A small state machine over pending text: each stage takes what it can from the front.
#include "text/reasoning_split.h"

#include <algorithm>
#include <utility>

namespace fulmar {
namespace {

constexpr std::string_view kClosingTag = "</think>";
constexpr std::string_view kOpeningTag = "<think";
constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Returns the length of the longest end of `text` that begins `tag`.
size_t open_end(std::string_view text, std::string_view tag) {
  for (size_t length = std::min(text.size(), tag.size() - 1); length > 0; --length) {
    if (tag.starts_with(text.substr(text.size() - length))) return length;
  }
  return 0;
}

void drop_leading(std::string& text, std::string_view characters) {
  text.erase(0, std::min(text.find_first_not_of(characters), text.size()));
}

}  // namespace

std::optional<ReasoningFormat> parse_reasoning_format(std::string_view name) {
  if (name == "auto" || name == "deepseek") return ReasoningFormat::split;
  if (name == "none") return ReasoningFormat::inline_text;
  return std::nullopt;
}

ReasoningMode reasoning_mode(ThinkMode think, ReasoningFormat format, const PromptTemplate& chosen) {
  std::string_view suffix = chosen.suffix(think);
  if (suffix.ends_with(kClosingTag.substr(0, kClosingTag.size() - 1)))
    return {ReasoningMode::Kind::rest_of_tag, {}};
  if (!is_thinking(think)) return {ReasoningMode::Kind::content, {}};
  suffix.remove_prefix(suffix.find(kOpeningTag));
  if (format == ReasoningFormat::inline_text) return {ReasoningMode::Kind::inline_text, suffix};
  return {ReasoningMode::Kind::split, suffix.substr(kOpeningTag.size())};
}

ReasoningSplitter::ReasoningSplitter(ReasoningMode mode)
    : behind_(mode.as_is ? Phase::content : Phase::blanks),
      thinking_(mode.kind == ReasoningMode::Kind::split),
      pending_(mode.opening) {
  switch (mode.kind) {
    case ReasoningMode::Kind::content:
      stage_ = behind_;
      break;
    case ReasoningMode::Kind::rest_of_tag:
    case ReasoningMode::Kind::split:
      stage_ = Phase::bracket;
      break;
    case ReasoningMode::Kind::inline_text:
      stage_ = Phase::content;
      break;
  }
}

SplitText ReasoningSplitter::feed(std::string_view text) {
  pending_ += text;
  SplitText out;
  advance(out);
  return out;
}

SplitText ReasoningSplitter::finish() {
  SplitText out;
  advance(out);
  out.reasoning += std::exchange(pending_, {});
  return out;
}

void ReasoningSplitter::advance(SplitText& out) {
  if (stage_ == Phase::bracket && !take_bracket()) return;
  if (stage_ == Phase::newlines) {
    drop_leading(pending_, "\r\n");
    if (pending_.empty()) return;
    stage_ = Phase::reasoning;
  }
  if (stage_ == Phase::reasoning && !take_reasoning(out)) return;
  if (stage_ == Phase::blanks) {
    drop_leading(pending_, kBlanks);
    if (pending_.empty()) return;
    stage_ = Phase::content;
  }
  out.content += std::exchange(pending_, {});
}

bool ReasoningSplitter::take_bracket() {
  if (pending_.empty()) return false;
  if (pending_.front() == '>') pending_.erase(0, 1);
  stage_ = thinking_ ? Phase::newlines : behind_;
  return true;
}

// Takes reasoning from what is pending. Returns whether the closing tag was taken.
bool ReasoningSplitter::take_reasoning(SplitText& out) {
  const size_t end = pending_.find(kClosingTag);
  const bool closed = end != std::string::npos;
  const size_t length = closed ? end : pending_.size() - open_end(pending_, kClosingTag);
  out.reasoning += pending_.substr(0, length);
  pending_.erase(0, length + (closed ? kClosingTag.size() : 0));
  if (closed) stage_ = behind_;
  return closed;
}

}  // namespace fulmar
