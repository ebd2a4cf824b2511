// Options that others have replaced where translating words is not enough: each still works for one version,
// with a note, and is not in the help.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fulmar {

// Takes the option out of the help. `note`: the text after its name.
CLI::Option* replaced(CLI::Option* option, const std::string& note);

// Returns a note for each such option that the parsed words give, those of the chosen commands included.
std::vector<std::string> notes_of_replaced(const CLI::App& app);

}  // namespace fulmar
