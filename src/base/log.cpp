#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace fulmar {
namespace {

// Writes control characters (U+0080 to U+009F, too) in hexadecimal: text from clients could otherwise begin
// lines of its own in the log, or steer the terminal of a person who reads it.
std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

class PrintableMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableMessage>();
  }
};

}  // namespace

void set_up_log(std::string_view level) {
  std::string name(level);
  if (name.empty()) {
    const char* from_environment = std::getenv("FULMAR_LOG");
    name = from_environment != nullptr ? from_environment : "info";
  }
  auto parsed = spdlog::level::from_str(name);
  if (parsed == spdlog::level::off && name != "off") parsed = spdlog::level::info;
  auto logger = spdlog::get("fulmar");
  if (!logger) logger = spdlog::stderr_color_mt("fulmar");
  spdlog::set_default_logger(logger);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %*");
  spdlog::set_formatter(std::move(formatter));
  spdlog::set_level(parsed);
}

}  // namespace fulmar
