// Objects that stop in the middle.
#include "net/json_prefix.h"

#include <gtest/gtest.h>

#include <string>

#include "net/json.h"

namespace fulmar::testing {
namespace {

TEST(JsonPrefix, KeepsTheValuesThatAreWhole) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "{}"},
      {"{", "{}"},
      {R"({"a)", "{}"},
      {R"({"a":)", "{}"},
      {R"({"a":12)", "{}"},  // perhaps 123
      {R"({"a":12,)", R"({"a":12})"},
      {R"({"a":"b)", "{}"},
      {R"({"a":"b")", R"({"a":"b"})"},
      {R"({"a":"b","c")", R"({"a":"b"})"},
      {R"({"a":"}\",{","b":[1,2)", R"({"a":"}\",{","b":[1]})"},
      {R"({"a":["x","y")", R"({"a":["x","y"]})"},
      {R"({"a":{"b":{"c":1})", R"({"a":{"b":{"c":1}}})"},
      {R"({ "a" : true , "b" : fal)", R"({ "a" : true })"},
      {R"([1,2)", "{}"},
      {R"({]}})", "{}"},
      {R"({a:1,)", "{}"},
  };
  for (const auto& [text, whole] : cases) {
    const JsonPrefix prefix = read_json_prefix(text);
    EXPECT_FALSE(prefix.closed) << text;
    EXPECT_EQ(prefix.text, text);
    EXPECT_EQ(prefix.completed, whole) << text;
  }
}

TEST(JsonPrefix, EndsWithTheObject) {
  const JsonPrefix prefix = read_json_prefix(R"({"a":"}","b":[{}]}} more)");
  EXPECT_TRUE(prefix.closed);
  EXPECT_EQ(prefix.text, R"({"a":"}","b":[{}]})");
  EXPECT_EQ(prefix.completed, prefix.text);
}

TEST(JsonPrefix, EveryCutOfADocumentCompletesToJson) {
  const std::string text = R"({"a":[1,-2.5e3,{"b":"\u00e9\\\""}],"c":null,"d":{"e":[[],"f"],"g":false}})";
  for (size_t length = 0; length < text.size(); ++length) {
    const JsonPrefix prefix = read_json_prefix(std::string_view(text).substr(0, length));
    EXPECT_FALSE(prefix.closed);
    const auto value = parse_json(prefix.completed);
    ASSERT_TRUE(value.ok()) << length;
    EXPECT_TRUE(value->is_object()) << length;
  }
  EXPECT_TRUE(read_json_prefix(text).closed);
}

}  // namespace
}  // namespace fulmar::testing
