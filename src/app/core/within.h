// Checks of numbers on the command line. Those that CLI11 brings let "nan" through, which is beyond no bound,
// and print their bounds into the help.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

namespace fulmar {

// Returns a check that refuses what is no finite number of its type from `least` to `most`, with what was
// found and what was wanted; the parser puts the option's name before it.
template <class Number>
CLI::Validator within(Number least, Number most) {
  std::ostringstream wanted;
  wanted << (std::numeric_limits<Number>::is_integer ? "INT" : "FLOAT") << " in [" << least << " - " << most
         << "]";
  const auto fault = [least, most, text = wanted.str()](std::string& word) {
    Number value = 0;  // no comparison holds for NaN
    const bool fits = CLI::detail::lexical_cast(word, value) && value >= least && value <= most;
    return fits ? std::string() : "is '" + word + "'; wanted " + text;
  };
  return {fault, ""};
}

// The same for a number of things, from `least` on.
inline CLI::Validator at_least(int64_t least) {
  const auto fault = [least](std::string& word) {
    int64_t value = 0;
    const bool fits = CLI::detail::lexical_cast(word, value) && value >= least;
    return fits ? std::string() : "is '" + word + "'; wanted a number from " + std::to_string(least);
  };
  return {fault, ""};
}

}  // namespace fulmar
