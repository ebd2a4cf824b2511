// The file of `serve --config`: options and their values, a line each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct Setting {
  int64_t line = 0;
  std::string name;  // of the option, without the dashes
  std::vector<std::string> values;

  // As on a command line: "--name=value" for each value.
  std::vector<std::string> words() const;
};

// Reads lines `name = value`, of which a value stands bare, in quotes, or as several in brackets,
// `name = ["a", "b"]`; # begins a comment. The beginnings of TOML, as far as options need it. Errors name the
// line and what stands there.
Result<std::vector<Setting>> parse_settings(std::string_view text);

// As parse_settings; errors name the file, too.
Result<std::vector<Setting>> read_settings(const std::string& path);

// Returns the words of a command line with those of a file before them, so that the line's own count. Options
// of the file that the line names, too, in whatever spelling, are left out; `words` are in today's.
std::vector<std::string> with_settings(const std::vector<std::string>& words,
                                       const std::vector<Setting>& settings);

// The value of --config, the last where there are several; empty: it is not among the words.
std::string settings_path(const std::vector<std::string>& words);

}  // namespace fulmar
