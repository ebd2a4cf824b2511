// Event framing and the incremental reader (the line rules of the WHATWG event stream format).
#include "net/sse.h"

namespace fulmar {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

std::string sse_event(std::string_view data) {
  std::string out;
  out.reserve(data.size() + 8);
  size_t begin = 0;
  while (true) {
    const size_t end = data.find_first_of("\r\n", begin);
    out.append("data: ")
        .append(data.substr(begin, end == std::string_view::npos ? end : end - begin))
        .push_back('\n');
    if (end == std::string_view::npos) break;
    begin = end + (data.substr(end, 2) == "\r\n" ? 2 : 1);
  }
  out.push_back('\n');
  return out;
}

bool SseParser::take_line(const std::function<void(std::string_view)>& on_event) {
  std::string_view line = line_;
  if (at_start_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) on_event(data_);
    data_.clear();
    has_data_ = false;
  } else if (line == "data" || line.starts_with("data:")) {
    std::string_view value = line.size() > 4 ? line.substr(5) : std::string_view();
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_.push_back('\n');
    data_.append(value);
    has_data_ = true;
  }
  line_.clear();
  return data_.size() <= max_event_bytes_;
}

Status SseParser::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_event) {
  const auto fail = [this]() -> Status {
    broken_ = true;
    return Error{ErrorKind::corrupt,
                 "event stream holds an event of more than " + std::to_string(max_event_bytes_) + " bytes"};
  };
  if (broken_) return fail();
  while (!bytes.empty()) {
    if (after_carriage_return_) {
      after_carriage_return_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = bytes.find_first_of("\r\n");
    line_.append(bytes.substr(0, end));
    if (line_.size() > max_event_bytes_ + kByteOrderMark.size() + 6) return fail();
    if (end == std::string_view::npos) break;
    after_carriage_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!take_line(on_event)) return fail();
  }
  return {};
}

}  // namespace fulmar
