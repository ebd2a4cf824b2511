// The parser of the command line: the program's own options and every command's.
#pragma once

#include <string>

#include "app/core/commands.h"

namespace fulmar {

// Adds all options and commands to a parser, with the checks that all options share.
void set_up_parser(CLI::App& app, std::string& log_level, Command& chosen);

}  // namespace fulmar
