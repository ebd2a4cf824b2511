// What holds for every option of every command, by a walk over the parser that the program runs.
#include "app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "app/core/option_checks.h"

namespace fulmar {
namespace {

using testing::HasSubstr;

// An option's name, also where the help hides it.
std::string name_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

// The whole parser, and a walk over it.
struct Program {
  CLI::App app{"", "fulmar"};
  std::string log;
  Command chosen;

  Program() { set_up_parser(app, log, chosen); }

  // Calls `look` for each option that takes a value, with the words that lead to it.
  void each_option(const std::function<void(const std::string& name, CLI::Option& option)>& look) {
    walk(app, "fulmar", look);
  }

 private:
  static void walk(CLI::App& app, const std::string& above,
                   const std::function<void(const std::string&, CLI::Option&)>& look) {
    for (CLI::Option* option : app.get_options()) {
      if (takes_value(*option)) look(above + " " + name_of(*option), *option);
    }
    for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
      walk(*command, above + " " + command->get_name(), look);
    }
  }
};

// What the parser says to the value; empty: it is taken.
std::string fault(CLI::Option& option, const std::string& value) {
  option.clear();
  option.add_result(value);
  try {
    option.run_callback();
    return {};
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
}

// The two ends of an option's range, which the name of its check has; nothing: it has none.
struct Range {
  std::string least, most;
};
std::optional<Range> range_of(CLI::Option& option, const std::string& kind) {
  const std::string before = kind + " in [";
  try {
    for (int i = 0;; i++) {
      const std::string name = option.get_validator(i)->get_name();
      if (!name.starts_with(before)) continue;
      const size_t first = before.size(), middle = name.find(" - "), end = name.find(']');
      return Range{name.substr(first, middle - first), name.substr(middle + 3, end - middle - 3)};
    }
  } catch (const CLI::OptionNotFound&) {
    return std::nullopt;
  }
}

bool is_whole_number(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT");
}

TEST(CommandLine, EveryOptionRefusesAnEmptyValueByName) {
  Program program;
  std::set<std::string> empty_is_fine;
  size_t options = 0;
  program.each_option([&](const std::string& name, CLI::Option& option) {
    options++;
    ASSERT_NE(name_of(option), "");
    if (takes_empty_value(option)) {
      empty_is_fine.insert(name);
      EXPECT_EQ(fault(option, ""), "") << name;
    } else {
      EXPECT_THAT(fault(option, ""), HasSubstr(name_of(option))) << name;
    }
  });
  EXPECT_GT(options, 150u);
  EXPECT_EQ(empty_is_fine,
            (std::set<std::string>{"fulmar bench drafts --decode", "fulmar bench kernels --decode",
                                   "fulmar bench kernels --prefill", "fulmar bench steps --decode",
                                   "fulmar bench steps --prefill", "fulmar bench structured --decode"}));
}

TEST(CommandLine, EveryWholeNumberHasARangeThatItsTypeHolds) {
  Program program;
  size_t numbers = 0;
  program.each_option([&](const std::string& name, CLI::Option& option) {
    if (!is_whole_number(option)) return;
    numbers++;
    const auto range = range_of(option, "INT");
    ASSERT_TRUE(range) << name << " has no range; whole() gives it one";
    EXPECT_EQ(fault(option, range->least), "") << name;
    EXPECT_EQ(fault(option, range->most), "") << name;
    for (const std::string found :
         {"18446744073709551616", "-9223372036854775809", "-1", "1.5", "0x10", "010", "1 "}) {
      const std::string text = fault(option, found);
      EXPECT_THAT(text, HasSubstr(name_of(option))) << name << " takes " << found;
      EXPECT_THAT(text, HasSubstr("'" + found + "'; wanted INT in [" + range->least)) << name;
    }
  });
  EXPECT_GT(numbers, 30u);
}

TEST(CommandLine, EveryNumberHasARange) {
  Program program;
  size_t numbers = 0;
  program.each_option([&](const std::string& name, CLI::Option& option) {
    if (!option.get_type_name().starts_with("FLOAT")) return;
    numbers++;
    EXPECT_TRUE(range_of(option, "FLOAT") || range_of(option, "INT"))
        << name << " has no range; within() gives it one";
    EXPECT_THAT(fault(option, "nan"), HasSubstr(name_of(option))) << name;
  });
  EXPECT_GT(numbers, 15u);
}

TEST(CommandLine, TheEndsOfARangeAreWithinIt) {
  const auto taken = [](const CLI::Validator& check, std::string word) { return check(word).empty(); };
  EXPECT_TRUE(taken(whole(-5, 5), "-5"));
  EXPECT_TRUE(taken(whole(-5, 5), "0"));
  EXPECT_FALSE(taken(whole(-5, 5), "-6"));
  EXPECT_FALSE(taken(whole(-5, 5), "-0"));
  EXPECT_TRUE(taken(whole(0, ~uint64_t{0}), "18446744073709551615"));
  EXPECT_FALSE(taken(whole(2, 3), "1"));
  EXPECT_FALSE(taken(whole(2, 3), "4"));
  EXPECT_TRUE(taken(within(-1, 1), "-1"));
  EXPECT_FALSE(taken(within(-1, 1), "1.001"));
}

TEST(CommandLine, AnEmptyVariableIsNotTakenForNone) {
  ::setenv("FULMAR_PASSWORD", "", 1);
  Program program;
  program.app.parse("keys list");
  EXPECT_EQ(empty_variable(program.app), "");  // no option of this command reads it
  Program server;
  server.app.parse("control");
  EXPECT_EQ(empty_variable(server.app), "FULMAR_PASSWORD");
  ::unsetenv("FULMAR_PASSWORD");
}

TEST(CommandLine, ALevelOfTheLogIsOneThatThereIs) {
  Program program;
  EXPECT_THROW(program.app.parse("--log loud models"), CLI::ValidationError);
  ::setenv("FULMAR_LOG", "loud", 1);
  EXPECT_THROW(program.app.parse("models"), CLI::ValidationError);
  ::unsetenv("FULMAR_LOG");
}

}  // namespace
}  // namespace fulmar
