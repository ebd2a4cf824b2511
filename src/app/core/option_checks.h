// Checks of options' values. Every number has a range, and no text is empty unless
// its option allows it: CLI11's own checks accept "nan", turn -1 into 2^64-1 and
// truncate numbers that do not fit a type.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace fulmar {

// Bounds of numbers without a smaller one of their own.
inline constexpr uint64_t kMostPort = 65535;
inline constexpr uint64_t kMostRows = uint64_t{1} << 30;
inline constexpr uint64_t kMostTokens = uint64_t{1} << 40;

// Returns a check that refuses anything but a finite number from `least` to `most`, naming what was found and
// wanted; the parser puts the option's name before it.
CLI::Validator within(double least, double most);

// Returns the same for whole numbers in decimal digits.
CLI::Validator whole(int64_t least, uint64_t most);

// Returns a check that refuses anything but a host's name.
CLI::Validator host_name();

// Returns a check that refuses nothing: an option with it takes an empty value.
CLI::Validator may_be_empty();

// Returns whether the option takes a value.
bool takes_value(const CLI::Option& option);
// Returns whether the option was given may_be_empty().
bool takes_empty_value(const CLI::Option& option);

// Makes every option of the program and its commands refuse an empty value, unless it takes one. Call after
// all options are declared.
void refuse_empty_values(CLI::App& app);

// Returns what is wrong with the environment of the parsed commands: the name of a variable that stands for
// an option and is set, but empty. Empty: nothing.
std::string empty_variable(const CLI::App& app);

}  // namespace fulmar
