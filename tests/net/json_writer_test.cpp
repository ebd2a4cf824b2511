// The writer's bytes: structure, escapes, numbers, and reading back what was written.
#include "net/json_writer.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "net/json.h"

namespace fulmar {
namespace {

TEST(JsonWriter, PlacesCommasAndColons) {
  JsonWriter json;
  json.begin_object().member("id", "x").member("ok", true).key("list").begin_array();
  json.value(1).value(-2).value(2.5).null().begin_object().end_object().begin_array().end_array();
  json.end_array().key("raw").raw("[0]").key("none").null().end_object();
  EXPECT_EQ(json.text(), R"({"id":"x","ok":true,"list":[1,-2,2.5,null,{},[]],"raw":[0],"none":null})");
}

TEST(JsonWriter, ContinuesAfterAPrefix) {
  JsonWriter json("data: ");
  json.begin_object().member("a", 1).end_object().append("\n\n");
  EXPECT_EQ(json.take(), "data: {\"a\":1}\n\n");
  EXPECT_EQ(json.text(), "");
}

TEST(JsonWriter, EscapesOnlyWhatMustBe) {
  EXPECT_EQ(json_quoted("a\"b\\c/d\n\r\t\b\f"), R"("a\"b\\c/d\n\r\t\b\f")");
  EXPECT_EQ(json_quoted(std::string("\0\x01\x1f\x7f", 4)), "\"\\u0000\\u0001\\u001f\x7f\"");
  EXPECT_EQ(json_quoted("é 漢 😀 \u2028"), "\"é 漢 😀 \u2028\"");
  EXPECT_EQ(json_quoted(""), "\"\"");
}

TEST(JsonWriter, ReplacesInvalidUtf8) {
  EXPECT_EQ(json_quoted("a\xff"
                        "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(json_quoted("\xe6\xbc"), "\"\xEF\xBF\xBD\"") << "one for each maximal subpart, as everywhere";
  EXPECT_EQ(json_quoted("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json_quoted("\xc0\xaf"
                        "x"),
            "\"\xEF\xBF\xBD\xEF\xBF\xBDx\"");
}

TEST(JsonWriter, Numbers) {
  JsonWriter json;
  json.begin_array().value(0.1).value(0.1f).value(5.0).value(1e300).value(-0.0);
  json.value(std::numeric_limits<int64_t>::min()).value(std::numeric_limits<uint64_t>::max());
  json.value(std::numeric_limits<double>::quiet_NaN()).value(std::numeric_limits<float>::infinity());
  json.value(uint8_t{7}).value(size_t{8}).end_array();
  EXPECT_EQ(json.text(), "[0.1,0.1,5,1e+300,-0.0,-9223372036854775808,18446744073709551615,null,null,7,8]");
}

TEST(JsonWriter, LargeFloatsStayFloats) {
  JsonWriter json;
  json.begin_array()
      .value(1844674407370955161568.0)
      .value(-1e20)
      .value(999999999999999.0)
      .value(1e20f)
      .end_array();
  EXPECT_EQ(json.text(), "[1.8446744073709552e+21,-1e+20,999999999999999,1e+20]");
}

TEST(JsonWriter, WritesTrees) {
  const std::string text = R"({"b":[1,2.5,"é\n",null,true,{"c":{}}],"a":18446744073709551615})";
  const auto tree = parse_json(text);
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(JsonWriter().value(*tree).text(), text);
}

TEST(JsonWriter, WhateverIsWrittenParses) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; i++) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? random() % 256 : 0xC0 + random() % 64);
    const auto parsed = parse_json(json_quoted(bytes));
    ASSERT_TRUE(parsed.ok()) << parsed.error().text;
    ASSERT_EQ(json_quoted(parsed->as_string()), json_quoted(bytes));
  }
}

}  // namespace
}  // namespace fulmar
