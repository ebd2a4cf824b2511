#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <string>

namespace fulmar {

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
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_level(parsed);
}

}  // namespace fulmar
