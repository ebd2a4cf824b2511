// Options that others have replaced where no translation of words will do: each is taken for one version yet,
// but is not in the help and is told of.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fulmar {

// Takes the option out of the help. `note`: what is said of it, behind its name.
CLI::Option* replaced(CLI::Option* option, const std::string& note);

// Returns a note for each such option that the parsed words give, those of the chosen commands included.
std::vector<std::string> notes_of_replaced(const CLI::App& app);

}  // namespace fulmar
