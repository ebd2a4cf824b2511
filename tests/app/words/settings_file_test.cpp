// The file of `serve --config`.
#include "app/words/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  const auto settings = parse_settings(text);
  if (!settings.ok()) return {settings.error().text};
  for (const Setting& setting : *settings)
    for (const std::string& word : setting.words()) words.push_back(word);
  return words;
}

TEST(SettingsFile, EachFormOfAValue) {
  EXPECT_THAT(
      words_of("# a server\nport = 80 # http\n\nmodel = \"a # b.pth\"\r\ndevices=0,1\nstrict-model = true\n"
               "announce-as = my name\nallowed-host = [\"a\", 'b,c', d ] # two\npassword = ''"),
      ElementsAre("--port=80", "--model=a # b.pth", "--devices=0,1", "--strict-model=true",
                  "--announce-as=my name", "--allowed-host=a", "--allowed-host=b,c", "--allowed-host=d",
                  "--password="));
}

TEST(SettingsFile, WhatIsNoSettingIsRefusedWithItsLine) {
  for (const char* line : {"port", "[serve]", "= 1", "--port = 1", "a b = 1", "port = \"1", "port = \"1\" 2",
                           "x = [1", "x = [1] 2", "x = []", "x = [1,]"}) {
    EXPECT_THAT(words_of("slots = 1\n" + std::string(line)),
                ElementsAre(HasSubstr("line 2 is '" + std::string(line) + "'; wanted a line such as")));
  }
  for (const char* name : {"config", "as", "help"})
    EXPECT_THAT(words_of(std::string(name) + " = x"),
                ElementsAre(HasSubstr("stands on the command line alone")));
  EXPECT_THAT(words_of("port = 1\nslots = 2\nport = 3"),
              ElementsAre("'port' is in line 1 and line 3; wanted once"));
}

// Knows two spellings of one option, and one that may be given several times.
KnownOption option_of(std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  if (name == "--state-ttl-days") return {"session-ttl-days"};
  return {std::string(name.substr(2)), name == "--allowed-host"};
}

TEST(SettingsFile, EachOptionIsGivenOnce) {
  const auto fault = [](std::string_view text) {
    const Status checked = check_settings(*parse_settings(text), option_of);
    return checked.ok() ? std::string() : checked.error().text;
  };
  EXPECT_EQ(fault("port = 1\nallowed-host = [a, b]\nsession-ttl-days = 3"), "");
  EXPECT_EQ(fault("slots = 1\nport = [1, 2]"), "line 2: 'port' has 2 values; wanted one");
  EXPECT_EQ(fault("session-ttl-days = 1\nport = 2\nstate-ttl-days = 3"),
            "'session-ttl-days' in line 1 and 'state-ttl-days' in line 3 are one option; wanted one of them");
  EXPECT_EQ(fault("device = cpu\ndevices = cpu"),
            "'device' in line 1 and 'devices' in line 2 are one option; wanted one of them");
}

TEST(SettingsFile, TheCommandLineGoesBefore) {
  const auto settings = parse_settings("port = 1\nallowed-host = a");
  EXPECT_THAT(with_settings({"--log", "info", "serve", "--port", "2"}, *settings),
              ElementsAre("--log", "info", "serve", "--allowed-host=a", "--port", "2"));
  EXPECT_THAT(with_settings({"serve", "--allowed-host=b"}, *settings),
              ElementsAre("serve", "--port=1", "--allowed-host=b"));
  const auto old = parse_settings("device = cpu\nport = 1");
  EXPECT_THAT(with_settings({"serve", "--devices=0"}, *old), ElementsAre("serve", "--port=1", "--devices=0"));
}

TEST(SettingsFile, TheCommandLineGoesBeforeWhatStandsInItsPlace) {
  const std::pair<const char*, const char*> pairs[] = {{"cache-device", "l1-capacity"},
                                                       {"cache-device", "prefix-slots"},
                                                       {"cache-host", "l2-capacity"},
                                                       {"cache-host", "prefix-host-mib"},
                                                       {"state-store", "state-db-path"}};
  for (const auto& [one, other] : pairs) {
    for (const auto& [in_file, said] : {std::pair(one, other), {other, one}}) {
      const auto settings = parse_settings(std::string(in_file) + " = 1\nport = 1");
      const std::string word = "--" + std::string(said) + "=2";
      EXPECT_THAT(with_settings({"serve", word}, *settings), ElementsAre("serve", "--port=1", word));
    }
  }
}

TEST(SettingsFile, ThePathIsThatOfTheLastConfig) {
  EXPECT_EQ(settings_path({"serve", "--config", "a"}), "a");
  EXPECT_EQ(settings_path({"serve", "--config=a", "--config=b"}), "b");
  EXPECT_EQ(settings_path({"serve", "--port", "1"}), "");
  EXPECT_EQ(settings_path({"serve", "--config=", "a"}), "");
}

TEST(SettingsFile, AFileThatCannotBeReadIsNamed) {
  EXPECT_THAT(read_settings("/no/such/file").error().text, HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace fulmar
