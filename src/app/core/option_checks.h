// What the values of options must be. Every number has a range, and no text is empty unless its option says
// so: those checks that CLI11 brings let "nan" through, turn -1 into 2^64-1 and cut off what is beyond a
// type.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace fulmar {

// Bounds of numbers that have none of their own.
inline constexpr uint64_t kMostPort = 65535;
inline constexpr uint64_t kMostRows = uint64_t{1} << 30;
inline constexpr uint64_t kMostTokens = uint64_t{1} << 40;

// Returns a check that refuses what is no finite number from `least` to `most`, with what was found and what
// was wanted; the parser puts the option's name before it.
CLI::Validator within(double least, double most);

// As within, of whole numbers in decimal digits.
CLI::Validator whole(int64_t least, uint64_t most);

// Returns a check that refuses what is no name of a host.
CLI::Validator host_name();

// Returns a check that refuses nothing: an option with it takes an empty value.
CLI::Validator may_be_empty();

// True where the option takes a value.
bool takes_value(const CLI::Option& option);
// True where the option was given may_be_empty().
bool takes_empty_value(const CLI::Option& option);

// Makes every option of the program and of its commands refuse an empty value, but those that take one. Comes
// after all options are declared.
void refuse_empty_values(CLI::App& app);

// Returns what is wrong with the environment of the commands that were parsed: the name of a variable that
// stands for an option, is set and is empty. Empty: nothing.
std::string empty_variable(const CLI::App& app);

}  // namespace fulmar
