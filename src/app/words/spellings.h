// Replaced spellings of the command line, and those of other servers: one table, applied to
// the words before they are parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct Spelling {
  std::string_view command;  // the command; empty: any
  std::string_view old;
  int values;                 // 0 for a flag, 1 for an option
  std::string_view now;       // today's words separated by blanks, "$" for the value; empty: it has no effect
  std::string_view why = {};  // the note's text, instead of today's words
  std::string_view of_value = {};  // the row applies to this value only; empty: to any
  bool told = true;                // false: it stays as a second spelling, without a note
  // The place of today's words: instead of the old one; before the command, as options of the program; or
  // after it, as one of its own commands.
  enum class Position : uint8_t { here, of_program, own_command } place = Position::here;
  bool joins = false;  // the option takes several values: other spellings may be given, too
};

// Returns the spellings of this program's earlier versions.
std::span<const Spelling> own_spellings();
// Returns the spellings of other servers' start scripts.
std::span<const Spelling> others_spellings();
// Returns the servers that `serve --as` knows.
std::span<const std::string_view> other_servers();

struct TodaysWords {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // one for each replaced word
};

// Returns a command line's words, without the program's name, in today's spellings. In `serve --as SERVER --
// WORDS` those after "--" are that server's. Fails for an unknown server, an option without its value, and
// two spellings of one option.
Result<TodaysWords> in_todays_spellings(const std::vector<std::string>& words);

// Returns the index of the command among the words, or their number if there is none.
size_t place_of_command(const std::vector<std::string>& words);

}  // namespace fulmar
