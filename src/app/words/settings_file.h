// The file of `serve --config`: options and their values, a line each.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct Setting {
  int64_t line = 0;
  std::string name;  // of the option, without the dashes
  std::vector<std::string> values;

  // Returns the words of a command line: "--name=value" for each value.
  std::vector<std::string> words() const;
};

// Parses lines `name = value`, with a value bare, in quotes, or several in brackets,
// `name = ["a", "b"]`; # begins a comment. A subset of TOML that suffices for options.
// Errors name the line and what was found.
Result<std::vector<Setting>> parse_settings(std::string_view text);

// Reads and parses the file; errors name the file, too.
Result<std::vector<Setting>> read_settings(const std::string& path);

// What the parser knows of an option.
struct KnownOption {
  std::string name;      // the same for all spellings
  bool several = false;  // it may be given several times
};

// Checks that no setting has more values than its option takes, and that no two settings are spellings of one
// option. `option_of`: what a word such as "--port=1" gives; a name of its own where the parser knows none.
// Errors name the lines.
Status check_settings(const std::vector<Setting>& settings,
                      const std::function<KnownOption(std::string_view word)>& option_of);

// Returns a command line's words with the file's before them, so that the command line takes precedence.
// Options that both name, in any spelling, are left out of the file's; `words` are in today's spellings.
std::vector<std::string> with_settings(const std::vector<std::string>& words,
                                       const std::vector<Setting>& settings);

// Returns the value of --config, the last if there are several; empty: it is not among the words.
std::string settings_path(const std::vector<std::string>& words);

}  // namespace fulmar
