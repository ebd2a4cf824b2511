// The command line: words in any spelling, parsed, and the command that they choose.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "app/command_line.h"
#include "app/core/exit_code.h"
#include "app/core/option_checks.h"
#include "app/core/output.h"
#include "app/core/replaced.h"
#include "app/words/settings_file.h"
#include "app/words/spellings.h"
#include "base/exit_codes.h"
#include "base/heap.h"
#include "base/log.h"
#include "ops/device.h"

namespace {

using fulmar::Error, fulmar::ErrorKind, fulmar::Result, fulmar::Setting, fulmar::Status, fulmar::TodaysWords;
using Words = std::vector<std::string>;

// Returns an error that names a word in a command's place that is no command, and the known ones; empty: it
// is one, or there is none.
std::string unknown_command(const CLI::App& app, const Words& words) {
  const CLI::App* above = &app;
  for (const std::string& word : words) {
    const auto commands = above->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty() || word.starts_with('-')) return {};
    const auto named = std::find_if(commands.begin(), commands.end(),
                                    [&](const CLI::App* command) { return command->check_name(word); });
    if (named == commands.end()) {
      std::string names;
      for (const CLI::App* command : commands) names += (names.empty() ? "" : ", ") + command->get_name();
      return "fulmar: there is no command '" + word + "'; wanted one of " + names + "\n";
    }
    above = *named;
  }
  return {};
}

void parse(CLI::App& app, Words words) {
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  app.parse(std::move(words));
}

// The words of the command line in today's spellings, with those of the file of `serve --config`.
struct CommandLine {
  TodaysWords today;
  std::string file;  // empty: none was named
  std::vector<Setting> settings;
};

Result<CommandLine> read_line(const Words& words) {
  CommandLine line;
  FULMAR_ASSIGN(line.today, fulmar::in_todays_spellings(words));
  const size_t place = fulmar::place_of_command(line.today.words);
  if (place == line.today.words.size() || line.today.words[place] != "serve") return line;
  line.file = fulmar::settings_path(line.today.words);
  if (line.file.empty()) return line;
  FULMAR_ASSIGN(line.settings, fulmar::read_settings(line.file));
  TodaysWords own = std::move(line.today);
  FULMAR_ASSIGN(line.today, fulmar::in_todays_spellings(fulmar::with_settings(own.words, line.settings)));
  line.today.notes.insert(line.today.notes.begin(), own.notes.begin(), own.notes.end());
  return line;
}

// Returns what the parser knows of the option that a word gives.
fulmar::KnownOption option_of(const CLI::App& app, std::string_view word) {
  const std::string name(word.substr(0, word.find('=')));
  const CLI::Option* option = app.get_subcommand("serve")->get_option_no_throw(name);
  if (!option) return {name};
  return {option->get_single_name(), option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll};
}

// Returns which line of the file cannot be parsed, and why; empty: all can. Nothing runs after this.
std::string fault_of_file(CLI::App& app, const CommandLine& line) {
  for (const Setting& setting : line.settings) {
    Words words{"serve"};
    for (std::string& word : setting.words()) words.push_back(std::move(word));
    const std::string place = line.file + ": line " + std::to_string(setting.line) + ": ";
    try {
      const auto today = fulmar::in_todays_spellings(words);
      if (!today.ok()) return place + today.error().text;
      parse(app, today->words);
    } catch (const CLI::ExtrasError&) {
      return place + "there is no option '" + setting.name + "'; `fulmar serve --help` lists them";
    } catch (const CLI::ParseError& error) {
      return place + error.what();
    }
  }
  return {};
}

// Returns what is wrong with words that no option or argument takes, in the order in which they were given.
std::string words_left_over(const CLI::App& app) {
  std::string words;
  for (const std::string& word : app.remaining(true)) words += " '" + word + "'";
  const auto chosen = app.get_subcommands();
  const std::string command = "fulmar" + (chosen.empty() ? "" : " " + chosen.front()->get_name());
  return command + ": nothing takes" + words + "; `" + command + " --help` lists the options\n";
}

// Prints why the words cannot be parsed, or the help that they ask for. Returns the exit code.
int refuse(CLI::App& app, const CommandLine& line, const CLI::ParseError& error) {
  std::string text = unknown_command(app, line.today.words);
  if (text.empty() && error.get_exit_code() != 0) {
    if (const std::string fault = fault_of_file(app, line); !fault.empty()) text = "fulmar: " + fault + "\n";
  }
  if (text.empty() && error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
    text = words_left_over(app);
  }
  if (text.empty()) return app.exit(error) == 0 ? 0 : 2;
  std::fputs(text.c_str(), stderr);
  return 2;
}

// Runs the command that the words choose. Returns the exit code.
int run(int argc, char** argv) {
  using namespace fulmar;
  CLI::App app("Fulmar: RWKV inference engine and server", "fulmar");
  std::string log_level;
  Command chosen;
  set_up_parser(app, log_level, chosen);
  const auto line = read_line({argv + 1, argv + argc});
  if (!line.ok()) return report(line.error());
  const auto known = [&](std::string_view word) { return option_of(app, word); };
  if (const Status once = check_settings(line->settings, known); !once.ok())
    return report({once.error().kind, line->file + ": " + once.error().text});
  try {
    parse(app, line->today.words);
  } catch (const CLI::ParseError& error) {
    return refuse(app, *line, error);
  }
  if (const std::string variable = empty_variable(app); !variable.empty()) {
    return report({ErrorKind::invalid, variable + " is set and empty; wanted a value, or no such variable"});
  }
  set_up_log(log_level);
  for (const std::string& note : line->today.notes) spdlog::warn("{}", note);
  for (const std::string& note : notes_of_replaced(app)) spdlog::warn("{}", note);
  try {
    return chosen();
  } catch (const DeviceFailure& failure) {
    std::fprintf(stderr, "fulmar: %s\n", failure.what());
    return kDeviceErrorExit;
  } catch (const std::bad_alloc&) {
    return report({ErrorKind::resource, "not enough memory"});
  } catch (const std::system_error& failure) {  // such as a thread that cannot be started
    if (std::ferror(stdout) != 0) return 0;     // thrown while printing; main() tells it
    return report({ErrorKind::resource, failure.what()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  fulmar::bound_kept_memory();
  std::signal(SIGPIPE, SIG_IGN);
  const int code = run(argc, argv);
  const Status shown = fulmar::flush_output();
  if (shown.ok()) return code;
  const int lost = fulmar::report(shown.error());
  return code != 0 ? code : lost;
}
