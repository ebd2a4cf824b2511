// Spellings of the command line that were replaced, and those of other servers: one table, applied to the
// words before they are parsed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct Spelling {
  std::string_view command;  // that it belongs to; empty: all of them
  std::string_view old;
  int values;                 // 0 for a flag, 1 for an option
  std::string_view now;       // today's words with blanks between, "$" for the value; empty: it has no effect
  std::string_view why = {};  // said in the note, in place of today's words
  std::string_view of_value = {};  // the row holds for this value alone; empty: for any
  bool told = true;                // false: it stays as a second spelling, without a note
  // Where today's words stand: in place of the old one; before the command, as options of the program; or
  // behind it, as one of its own commands.
  enum class Position : uint8_t { here, of_program, own_command } place = Position::here;
  bool joins = false;  // the option takes several values: other spellings may stand beside it
};

// What this program itself used to understand.
std::span<const Spelling> own_spellings();
// What other servers' start scripts say.
std::span<const Spelling> others_spellings();
// The servers that `serve --as` knows.
std::span<const std::string_view> other_servers();

struct TodaysWords {
  std::vector<std::string> words;
  std::vector<std::string> notes;  // one for each replaced word
};

// Returns the words of a command line, without the program's name, in today's spellings. Of
// `serve --as SERVER -- WORDS` the words after "--" are that server's. Errors: a server that is not known, an
// option without its value, two spellings of one option.
Result<TodaysWords> in_todays_spellings(const std::vector<std::string>& words);

// The place of the command among the words; their number where there is none.
size_t place_of_command(const std::vector<std::string>& words);

}  // namespace fulmar
