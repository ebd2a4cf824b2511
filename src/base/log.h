// One log for the whole program: lines on stderr, `time level message key=value ...`; write with spdlog::info
// etc. A message is one line: control characters in it are written in hexadecimal.
#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

namespace fulmar {

// Sets the format and the level ("debug", "info", "warn", "error", "off"; anything else means "info"). An
// empty `level` means the environment variable FULMAR_LOG.
void set_up_log(std::string_view level);

}  // namespace fulmar
