#include "app/core/replaced.h"

#include <CLI/CLI.hpp>
#include <string_view>

namespace fulmar {

namespace {

constexpr std::string_view kMark =
    "replaced: ";  // begins the description of such an option, which the help does not show

}  // namespace

CLI::Option* replaced(CLI::Option* option, const std::string& note) {
  return option->group("")->description(std::string(kMark) + note);
}

std::vector<std::string> notes_of_replaced(const CLI::App& app) {
  std::vector<std::string> notes;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& text = option->get_description();
    if (option->count() > 0 && text.starts_with(kMark))
      notes.push_back("--" + option->get_lnames().front() + " " + text.substr(kMark.size()));
  }
  for (const CLI::App* command : app.get_subcommands()) {
    for (std::string& note : notes_of_replaced(*command)) notes.push_back(std::move(note));
  }
  return notes;
}

}  // namespace fulmar
