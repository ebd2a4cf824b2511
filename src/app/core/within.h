// Checks of numbers on the command line. Those that CLI11 brings let "nan" through, which is beyond no bound.
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

namespace fulmar {

// Returns a check that refuses what is no finite number from `least` to `most`, with what was found and what
// was wanted; the parser puts the option's name before it.
inline CLI::Validator within(double least, double most) {
  std::ostringstream wanted;
  wanted << "FLOAT in [" << least << " - " << most << "]";
  const auto fault = [least, most, text = wanted.str()](std::string& word) {
    double value = 0;  // no comparison holds for NaN
    const bool fits = CLI::detail::lexical_cast(word, value) && value >= least && value <= most;
    return fits ? std::string() : "is '" + word + "'; wanted " + text;
  };
  return {fault, wanted.str()};
}

}  // namespace fulmar
