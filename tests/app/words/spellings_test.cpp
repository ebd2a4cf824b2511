// Replaced spellings of the command line, each row of the table by itself.
#include "app/words/spellings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "app/core/commands.h"

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Words = std::vector<std::string>;

// The program's commands that load models, and those with rows of their own.
struct Program {
  CLI::App app{"", "fulmar"};
  std::string log;
  Command chosen;

  Program() {
    app.add_option("--log", log);
    for (const auto add : {add_serve, add_control, add_generate, add_bench, add_eval}) add(app, chosen);
  }
  // The commands and options that the words give, by name, with their values.
  std::map<std::string, Words> parse(Words words) {
    std::reverse(words.begin(), words.end());
    app.parse(std::move(words));
    std::map<std::string, Words> given;
    for (const CLI::App* one = &app; one;
         one = one->get_subcommands().empty() ? nullptr : one->get_subcommands().front()) {
      if (one != &app) given[one->get_name()] = {};
      for (const CLI::Option* option : one->get_options())
        if (option->count() > 0) given[option->get_name()] = option->results();
    }
    return given;
  }
};

// The command and all below it.
std::vector<const CLI::App*> with_its_own(const CLI::App* command) {
  std::vector<const CLI::App*> all{command};
  for (const CLI::App* own : command->get_subcommands([](const CLI::App*) { return true; }))
    all.push_back(own);
  return all;
}

std::vector<Spelling> all_rows() {
  std::vector<Spelling> rows(own_spellings().begin(), own_spellings().end());
  rows.insert(rows.end(), others_spellings().begin(), others_spellings().end());
  return rows;
}

std::string command_of(const Spelling& row) {
  return std::string(row.command.empty() ? "generate" : row.command);
}

// The words before an option of the row: a command that has others names one, unless the row does.
Words line_of(const Spelling& row) {
  Words words{command_of(row)};
  if (words.front() == "bench" && row.place != Spelling::Position::own_command) words.emplace_back("steps");
  return words;
}

// A value that the option of the row takes.
std::string value_for(const Spelling& row) {
  if (!row.of_value.empty()) return std::string(row.of_value);
  for (const auto& [part, value] : std::map<std::string_view, std::string>{{"activation", "int8"},
                                                                           {"--drafts", "ngram"},
                                                                           {"--drafter", "ngram"},
                                                                           {"--client", "conrwkv"},
                                                                           {"--sessions-dir", "/tmp"},
                                                                           {"--host", "127.0.0.1"}}) {
    if (row.now.find(part) != std::string_view::npos) return value;
  }
  return "7";
}

Words today(const Words& words) {
  const auto translated = in_todays_spellings(words);
  EXPECT_TRUE(translated.ok()) << translated.error().text;
  return translated.ok() ? translated->words : Words();
}

TEST(Spellings, EachOldOneGivesTheOptionsOfTheNewOne) {
  for (const Spelling& row : all_rows()) {
    SCOPED_TRACE(row.old);
    const std::string value = value_for(row), old(row.old);
    Words apart = line_of(row), joined = line_of(row);
    apart.push_back(old);
    if (row.values > 0) apart.push_back(value);
    joined.push_back(row.values > 0 ? old + "=" + value : old);
    std::string now(row.now);
    if (const size_t at = now.find('$'); at != std::string::npos) now.replace(at, 1, value);
    std::istringstream stream(now);
    Words wanted;
    for (std::string word; stream >> word;) wanted.push_back(word);
    const Words line = line_of(row);
    const bool of_program = row.place == Spelling::Position::of_program;
    wanted.insert(of_program ? wanted.end() : wanted.begin(), line.begin(), line.end());
    const auto meant = Program().parse(wanted);
    EXPECT_EQ(Program().parse(today(apart)), meant);
    EXPECT_EQ(Program().parse(today(joined)), meant);
    EXPECT_EQ(meant.size() > line.size(), !row.now.empty());
  }
}

TEST(Spellings, NoOldOneIsAnOptionStill) {
  Program program;
  for (const Spelling& row : all_rows()) {
    for (const CLI::App* command : with_its_own(program.app.get_subcommand(command_of(row))))
      EXPECT_EQ(command->get_option_no_throw(std::string(row.old)), nullptr) << row.old;
  }
}

TEST(Spellings, EachToldOneHasOneNote) {
  for (const Spelling& row : all_rows()) {
    Words words = line_of(row);
    words.emplace_back(row.old);
    if (row.values > 0) words.push_back(value_for(row));
    const auto translated = in_todays_spellings(words);
    ASSERT_TRUE(translated.ok());
    ASSERT_EQ(translated->notes.size(), row.told ? 1U : 0U) << row.old;
    if (!row.told) continue;
    EXPECT_THAT(translated->notes.front(), HasSubstr(row.old));
  }
}

TEST(Spellings, WordsOfOtherCommandsAndOptionsStay) {
  EXPECT_THAT(today({"chat", "--no-model", "--", "--pp-devices"}),
              ElementsAre("chat", "--no-model", "--", "--pp-devices"));
  EXPECT_THAT(today({"--log", "debug", "serve", "--port", "1"}),
              ElementsAre("--log", "debug", "serve", "--port", "1"));
  EXPECT_THAT(today({}), IsEmpty());
  EXPECT_THAT(today({"serve", "--no-model=false"}), ElementsAre("serve"));
}

TEST(Spellings, AnotherServersWordsFollowAs) {
  for (const std::string_view server : other_servers()) {
    const auto translated = in_todays_spellings(
        {"serve", "--port", "1", "--as", std::string(server), "--", "--max-batch-size", "4", "--wkv32"});
    ASSERT_TRUE(translated.ok());
    EXPECT_THAT(translated->words, ElementsAre("serve", "--port", "1", "--slots=4"));
    EXPECT_THAT(translated->notes, ElementsAre(HasSubstr("--wkv32 has no effect")));
  }
  EXPECT_THAT(in_todays_spellings({"serve", "--as", "vllm"}).error().text,
              HasSubstr("'vllm'; wanted one of rwkv_lightning"));
  EXPECT_THAT(in_todays_spellings({"serve", "--as"}).error().text, HasSubstr("--as is ''"));
}

TEST(Spellings, TwoOfOneOptionAreRefused) {
  for (const Spelling& one : all_rows()) {
    for (const Spelling& other : all_rows()) {
      if (one.old == other.old || command_of(one) != command_of(other)) continue;
      const auto options_of = [](const Spelling& row) {
        std::set<std::string> names;
        std::istringstream stream{std::string(row.now)};
        for (std::string word; stream >> word;)
          names.insert(word.starts_with("--") ? word.substr(0, word.find('=')) : "a command of its own");
        return names;
      };
      const auto theirs = options_of(other);
      const bool shared = std::any_of(theirs.begin(), theirs.end(), [&](const std::string& name) {
        return options_of(one).contains(name);
      });
      Words words = line_of(one).size() < line_of(other).size() ? line_of(one) : line_of(other);
      for (const Spelling* row : {&one, &other}) {
        words.emplace_back(row->old);
        if (row->values > 0) words.push_back(value_for(*row));
      }
      const auto translated = in_todays_spellings(words);
      if (one.joins && other.joins) {
        EXPECT_TRUE(translated.ok());
        continue;
      }
      ASSERT_EQ(translated.ok(), !shared) << one.old << " " << other.old;
      if (!shared) continue;
      EXPECT_THAT(translated.error().text, HasSubstr(one.old));
      EXPECT_THAT(translated.error().text, HasSubstr(other.old));
    }
  }
  EXPECT_EQ(in_todays_spellings({"serve", "--pp-devices", "0", "--devices", "1"}).error().text,
            "--pp-devices and --devices both say --devices; wanted one of them");
  EXPECT_THAT(today({"serve", "--port", "1", "--port", "2"}),
              ElementsAre("serve", "--port", "1", "--port", "2"));
}

TEST(Spellings, BenchMeasuresStepsWhereNothingElseIsNamed) {
  const auto translated = in_todays_spellings({"bench", "--decode", "4"});
  EXPECT_THAT(translated->words, ElementsAre("bench", "steps", "--decode", "4"));
  EXPECT_THAT(translated->notes, ElementsAre("bench without a command is spelled bench steps now"));
  EXPECT_THAT(today({"bench"}), ElementsAre("bench", "steps"));
  EXPECT_THAT(today({"bench", "--help"}), ElementsAre("bench", "--help"));
  EXPECT_THAT(today({"bench", "kernels", "--tp", "2"}), ElementsAre("bench", "kernels", "--tp", "2"));
}

TEST(Spellings, ACommandOfBenchStandsBehindItWhereverItWasSaid) {
  EXPECT_THAT(today({"--log", "debug", "bench", "--tokens", "9", "--serve", "--streams=2"}),
              ElementsAre("--log", "debug", "bench", "serve", "--tokens", "9", "--streams=2"));
  EXPECT_THAT(today({"bench", "--tokens", "9", "--drafts=model", "--draft-model", "a"}),
              ElementsAre("bench", "drafts", "--drafter=model", "--tokens", "9", "--draft-model", "a"));
  EXPECT_EQ(in_todays_spellings({"bench", "kernels", "--structured"}).error().text,
            "kernels and --structured both say what bench measures; wanted one of them");
}

TEST(Spellings, AMissingValueIsRefused) {
  EXPECT_EQ(in_todays_spellings({"serve", "--pp-devices"}).error().text,
            "--pp-devices: the value is missing");
}

}  // namespace
}  // namespace fulmar
