// The options of `fulmar serve`: those that stand for several things, those that were replaced, and the help.
#include "app/serve/serve_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "app/core/replaced.h"

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Parsed {
  CLI::App app{"", "serve"};
  ServeFlags flags;

  explicit Parsed(std::vector<std::string> words) {
    add_serve_flags(app, flags);
    std::reverse(words.begin(), words.end());
    app.parse(std::move(words));
  }
};

TEST(ServeFlags, OpenNamesRoutesThatAskForNoKey) {
  const auto opens = [](std::vector<std::string> words) {
    const auto options = server_options(Parsed(std::move(words)).flags);
    return std::make_pair(!options->auth_all, options->open_translate);
  };
  EXPECT_EQ(opens({}), std::make_pair(true, false));
  EXPECT_EQ(opens({"--open", "translate"}), std::make_pair(true, true));
  EXPECT_EQ(opens({"--open", "none"}), std::make_pair(false, false));
  EXPECT_EQ(opens({"--open=none", "--open=translate"}), std::make_pair(false, true));
  EXPECT_EQ(opens({"--open=none,translate"}), std::make_pair(false, true));
  EXPECT_THROW(opens({"--open=everything"}), CLI::ParseError);
}

struct Replaced {
  std::string old, today;
  bool beside = true;  // whether both may be given
};
const std::vector<Replaced> kReplaced = {
    {"--l1-capacity", "--cache-device", false}, {"--prefix-slots", "--cache-device", false},
    {"--l2-capacity", "--cache-host", false},   {"--prefix-host-mib", "--cache-host", false},
    {"--max-waiting-rows", "--max-queue"},      {"--max-waiting-mib", "--max-queue"}};

TEST(ServeFlags, EachReplacedOneIsToldOfAndIsNotSaidBesideItsSuccessor) {
  for (const Replaced& one : kReplaced) {
    SCOPED_TRACE(one.old);
    const Parsed alone({one.old, "7"});
    EXPECT_THAT(notes_of_replaced(alone.app), ElementsAre(HasSubstr(one.old)));
    EXPECT_THAT(notes_of_replaced(alone.app), ElementsAre(HasSubstr(one.today)));
    EXPECT_TRUE(check_serve(alone.flags).ok());
    const Status both = check_serve(Parsed({one.old, "7", one.today, "7"}).flags);
    EXPECT_EQ(both.ok(), one.beside);
    if (!one.beside) {
      EXPECT_THAT(both.error().text, testing::AllOf(HasSubstr(one.old), HasSubstr(one.today)));
    }
    EXPECT_TRUE(alone.app.get_option(one.old)->get_group().empty());
  }
  EXPECT_THAT(notes_of_replaced(Parsed({"--cache-device", "7", "--max-queue", "7"}).app), IsEmpty());
  EXPECT_THAT(notes_of_replaced(Parsed({"--quantize", "q4_k", "--quantize-keep-head"}).app),
              ElementsAre(HasSubstr("--quantize KIND+stored_head")));
}

TEST(ServeFlags, ReplacedOnesCountAsTheyDid) {
  const Parsed parsed(
      {"--l1-capacity", "4", "--prefix-slots", "3", "--l2-capacity", "2", "--prefix-host-mib", "1"});
  const CacheShares shares = share_caches(parsed.flags.engine.cache, 1, 1);
  EXPECT_EQ(shares.device_sessions, 4);
  EXPECT_EQ(shares.device_prefixes, 3);
  EXPECT_EQ(shares.host_sessions, 2);
  EXPECT_EQ(shares.host_prefix_mib, 1);
  EXPECT_TRUE(check_serve(parsed.flags).ok());
}

// Words of a line of help, and lines of a group, that a person still reads.
TEST(ServeFlags, TheHelpIsShortAndInGroups) {
  constexpr size_t kMostLetters = 120, kMostInGroup = 9;
  const Parsed parsed({});
  std::map<std::string, size_t> groups;
  for (const CLI::Option* option : parsed.app.get_options()) {
    if (option->get_group().empty()) continue;
    groups[option->get_group()]++;
    EXPECT_LE(option->get_description().size(), kMostLetters) << option->get_name();
    EXPECT_FALSE(option->get_description().empty()) << option->get_name();
  }
  for (const auto& [group, count] : groups) EXPECT_LE(count, kMostInGroup) << group;
  EXPECT_LE(groups["Options"], 2U) << "an option without a group of its own";
}

}  // namespace
}  // namespace fulmar
