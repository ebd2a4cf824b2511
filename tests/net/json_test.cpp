// Parsing with limits, the tree, and every lenient scalar form.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>
#include <string>

#include "net/model_json.h"

namespace fulmar {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

JsonValue parsed(std::string_view text) {
  auto value = parse_json(text);
  EXPECT_TRUE(value.ok()) << (value.ok() ? "" : value.error().text);
  return value.ok() ? std::move(value).value() : JsonValue();
}

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto value = parse_json(text, limits);
  if (value.ok()) return "no error";
  EXPECT_EQ(value.error().kind, ErrorKind::invalid);
  EXPECT_THAT(value.error().text, StartsWith("Invalid JSON"));
  return value.error().text;
}

TEST(ParseJson, EveryKind) {
  EXPECT_TRUE(parsed("null").is_null());
  EXPECT_TRUE(parsed(" true ").as_bool());
  EXPECT_EQ(parsed("-5").as_int64(), -5);
  EXPECT_EQ(parsed("9223372036854775807").as_int64(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parsed("-9223372036854775808").as_int64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(parsed("18446744073709551615").as_uint64(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parsed("1.5e3").as_double(), 1500);
  EXPECT_EQ(parsed("5.0").kind(), JsonValue::Kind::number);
  EXPECT_EQ(parsed(R"("a\n\u00e9\ud83d\ude00é\u0000")").as_string(), std::string("a\né😀é\0", 11));
  EXPECT_EQ(parsed("[1,[2],{}]").as_array().size(), 3u);
}

TEST(ParseJson, ObjectsKeepTheirOrderAndTheLastOfEqualKeys) {
  const auto read = parse_json(R"({"b":1,"a":2,"b":3,"c":null,"a":4})", {.doubled_names = true});
  ASSERT_TRUE(read.ok());
  const JsonValue& value = *read;
  std::string order;
  for (const auto& [key, member] : value.as_object().members()) order += key;
  EXPECT_EQ(order, "bac");
  EXPECT_EQ(value.find("b")->as_int64(), 3);
  EXPECT_EQ(value.find("a")->as_int64(), 4);
  EXPECT_TRUE(value.find("c")->is_null());
  EXPECT_EQ(value.find("d"), nullptr);
  EXPECT_EQ(parsed("[1]").find("a"), nullptr);
}

TEST(ParseJson, LargeObjectsFindEveryKey) {
  std::string text = "{";
  for (int i = 0; i < 5000; i++)
    text += "\"k" + std::to_string(i * 7919 % 5000) + "\":" + std::to_string(i) + ",";
  for (int i = 0; i < 5000; i++) text += "\"k" + std::to_string(i) + "\":" + std::to_string(-i) + ",";
  text += "\"same\":1}";
  const auto read = parse_json(text, {.doubled_names = true});
  ASSERT_TRUE(read.ok());
  const JsonValue& value = *read;
  EXPECT_EQ(value.as_object().members().size(), 5001u);
  for (int i = 0; i < 5000; i++) ASSERT_EQ(value.find("k" + std::to_string(i))->as_int64(), -i);
  EXPECT_EQ(value.find("k5000"), nullptr);
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const std::string_view text :
       {"",       " ",      "{",        "}",     "[1,]", "{\"a\":1,}", "{'a':1}",   "{a:1}", "tru",
        "nul",    "NaN",    "Infinity", "01",    "+1",   "1.",         ".5",        "1e",    "1e999",
        "\"open", "\"\t\"", "\"\\x\"",  "[1] 2", "1 2",  "//c\n1",     "{\"a\" 1}", "[1 2]", "\"\\u12\""}) {
    EXPECT_THAT(error_of(text), StartsWith("Invalid JSON: ")) << text;
  }
}

TEST(ParseJson, RefusesInvalidUtf8) {
  for (const std::string_view bytes :
       {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_THAT(error_of("{\"a\":\"" + std::string(bytes) + "\"}"), StartsWith("Invalid JSON: "));
  }
}

TEST(ParseJson, RefusesLoneSurrogates) {
  for (const std::string_view text :
       {R"("\ud800")", R"("\ud800x")", R"("\ud800\u0041")", R"("\ud800\ud800")"}) {
    EXPECT_THAT(error_of(text), StartsWith("Invalid JSON: ")) << text;
  }
}

TEST(ParseModelJson, ReadsWholeNumbersBeyond64BitsAsDoubles) {
  const auto value =
      parse_model_json(R"(["18446744073709551616",18446744073709551616,-1e3,7,-36893488147419103232])");
  ASSERT_TRUE(value.ok()) << value.error().text;
  const auto& items = value->as_array();
  EXPECT_EQ(items[0].as_string(), "18446744073709551616");
  EXPECT_EQ(items[1].as_double(), 0x1p64);
  EXPECT_EQ(items[3].as_int64(), 7);
  EXPECT_EQ(items[4].as_double(), -0x1p65);
  EXPECT_FALSE(parse_model_json("[18446744073709551616,]").ok());
}

TEST(ParseJson, RefusesWholeNumbersBeyond64Bits) {
  EXPECT_THAT(error_of("18446744073709551616"),
              HasSubstr("the whole number 18446744073709551616 at byte 0 does not fit 64 bits"));
  EXPECT_THAT(error_of("-9223372036854775809"), HasSubstr("-9223372036854775809 at byte 0 does not fit"));
  EXPECT_THAT(
      error_of(R"({"99999999999999999999\\":["\"99999999999999999999",1.5e3,-1,100000000000000000000]})"),
      HasSubstr("100000000000000000000 at byte 61"));
  EXPECT_THAT(error_of("[" + std::string(1000, '9') + "]"),
              HasSubstr("number " + std::string(40, '9') + "... at byte 1"));
  EXPECT_THAT(error_of("[1e400]"), HasSubstr("a number is malformed or too large"));
}

TEST(ParseJson, DepthIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  JsonLimits limits;
  limits.max_depth = 20;
  EXPECT_TRUE(parse_json(nested(19), limits).ok());
  EXPECT_THAT(error_of(nested(21), limits), HasSubstr("deeper than 20"));
  EXPECT_THAT(error_of(nested(100'000)), HasSubstr("deeper than 64"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), StartsWith("Invalid JSON"));
  std::string objects;
  for (int i = 0; i < 100'000; i++) objects += "{\"a\":";
  EXPECT_THAT(error_of(objects), StartsWith("Invalid JSON"));
}

TEST(ParseJson, SizesAreBounded) {
  JsonLimits limits;
  limits.max_bytes = 10;
  limits.max_values = 4;
  EXPECT_TRUE(parse_json("[1,2,3]", limits).ok());
  EXPECT_THAT(error_of("[1,2,3,4]", limits), HasSubstr("more than 4 values"));
  EXPECT_THAT(error_of("\"123456789\"", limits), HasSubstr("11 bytes, wanted at most 10"));
  limits.max_bytes = 1000;
  EXPECT_THAT(error_of(R"({"a":{"b":1},"c":2,"d":3})", limits), HasSubstr("more than 4 values"));
}

TEST(ParseJson, SixtyFourMebibytesInOneString) {
  std::string text = "{\"prompt\":\"";
  text.append((size_t{64} << 20) - text.size() - 2, 'p');
  text += "\"}";
  const JsonValue value = parsed(text);
  ASSERT_TRUE(value.find("prompt"));
  EXPECT_EQ(value.find("prompt")->as_string().size(), text.size() - 13);
  EXPECT_THAT(error_of(text + " "), HasSubstr("wanted at most"));
}

TEST(ParseJson, SixtyFourMebibytesOfBracketsStayBounded) {
  std::string text = "[";
  while (text.size() < (size_t{64} << 20) - 8) text += "[],";
  text += "1]";
  EXPECT_THAT(error_of(text), HasSubstr("values"));
}

struct Lenient {
  const char* json;
  std::optional<bool> as_bool;
  std::optional<int64_t> as_int;
  std::optional<double> as_number;
};

class LenientScalars : public testing::TestWithParam<Lenient> {};

TEST_P(LenientScalars, ReadAsTheSpecificationSays) {
  const JsonValue value = parsed(GetParam().json);
  EXPECT_EQ(lenient_bool(value), GetParam().as_bool);
  EXPECT_EQ(lenient_int(value), GetParam().as_int);
  EXPECT_EQ(lenient_number(value), GetParam().as_number);
}

constexpr std::nullopt_t kNo = std::nullopt;

INSTANTIATE_TEST_SUITE_P(
    Table, LenientScalars,
    testing::Values(Lenient{"true", true, kNo, kNo}, Lenient{"false", false, kNo, kNo},
                    Lenient{R"("true")", true, kNo, kNo}, Lenient{R"("True")", true, kNo, kNo},
                    Lenient{R"("false")", false, kNo, kNo}, Lenient{R"("False")", false, kNo, kNo},
                    Lenient{R"("TRUE")", kNo, kNo, kNo}, Lenient{"0", false, 0, 0.0},
                    Lenient{"1", true, 1, 1.0}, Lenient{"1.0", true, 1, 1.0}, Lenient{"5", kNo, 5, 5.0},
                    Lenient{"5.0", kNo, 5, 5.0}, Lenient{"-2", kNo, -2, -2.0}, Lenient{"5.5", kNo, kNo, 5.5},
                    Lenient{"1e3", kNo, 1000, 1000.0}, Lenient{R"("1.0")", kNo, 1, 1.0},
                    Lenient{R"("1")", kNo, 1, 1.0}, Lenient{R"("0.7")", kNo, kNo, 0.7},
                    Lenient{R"("-1")", kNo, -1, -1.0}, Lenient{R"("1e-3")", kNo, kNo, 1e-3},
                    Lenient{R"("")", kNo, kNo, kNo}, Lenient{R"("x")", kNo, kNo, kNo},
                    Lenient{R"("1x")", kNo, kNo, kNo}, Lenient{R"(" 1")", kNo, kNo, kNo},
                    Lenient{R"("nan")", kNo, kNo, kNo}, Lenient{R"("inf")", kNo, kNo, kNo},
                    Lenient{R"("-infinity")", kNo, kNo, kNo}, Lenient{R"("1e999")", kNo, kNo, kNo},
                    Lenient{R"("0x10")", kNo, kNo, kNo},
                    Lenient{"9223372036854775807", kNo, INT64_MAX, 9223372036854775807.0},
                    Lenient{R"("9223372036854775807")", kNo, INT64_MAX, 9223372036854775807.0},
                    Lenient{"9223372036854775808", kNo, kNo, 9223372036854775808.0},
                    Lenient{"9223372036854775808.0", kNo, kNo, 9223372036854775808.0},
                    Lenient{"-9223372036854775808.0", kNo, INT64_MIN, -9223372036854775808.0},
                    Lenient{"1e300", kNo, kNo, 1e300}, Lenient{"null", kNo, kNo, kNo},
                    Lenient{"[1]", kNo, kNo, kNo}, Lenient{"{}", kNo, kNo, kNo}));

TEST(JsonFields, AbsentAndNullAreNothing) {
  for (const std::string_view text : {"{}", R"({"x":null})", "[]", "5"}) {
    const JsonValue object = parsed(text);
    EXPECT_EQ(*get_bool(object, "x"), std::nullopt);
    EXPECT_EQ(*get_int(object, "x"), std::nullopt);
    EXPECT_EQ(*get_number(object, "x"), std::nullopt);
    EXPECT_EQ(*get_string(object, "x"), std::nullopt);
    EXPECT_EQ(*get_array(object, "x"), nullptr);
    EXPECT_EQ(*get_object(object, "x"), nullptr);
  }
}

TEST(JsonFields, PresentOnesAreRead) {
  const JsonValue object = parsed(R"({"b":"True","i":"7","n":1,"s":"text","a":[1],"o":{"k":2}})");
  EXPECT_EQ(**get_bool(object, "b"), true);
  EXPECT_EQ(**get_int(object, "i"), 7);
  EXPECT_EQ(**get_number(object, "n"), 1.0);
  EXPECT_EQ(**get_string(object, "s"), "text");
  EXPECT_EQ((*get_array(object, "a"))->size(), 1u);
  EXPECT_EQ((*get_object(object, "o"))->find("k")->as_int64(), 2);
}

TEST(JsonFields, ErrorsNameFieldFoundAndWanted) {
  const JsonValue object = parsed(R"({"b":"maybe","i":5.5,"n":[1,2],"s":7,"a":{"x":1},"o":true,"long":")" +
                                  std::string(100, 'x') + R"("})");
  EXPECT_EQ(get_bool(object, "b").error().text, R"('b' is string "maybe", wanted a boolean)");
  EXPECT_EQ(get_int(object, "i").error().text, "'i' is number 5.5, wanted an integer of 64 bits");
  EXPECT_EQ(get_number(object, "n").error().text, "'n' is array of 2, wanted a finite number");
  EXPECT_EQ(get_string(object, "s").error().text, "'s' is number 7, wanted a string");
  EXPECT_EQ(get_array(object, "a").error().text, "'a' is object of 1, wanted an array");
  EXPECT_EQ(get_object(object, "o").error().text, "'o' is boolean true, wanted an object");
  EXPECT_EQ(get_int(object, "long").error().text,
            "'long' is string of 100 bytes, wanted an integer of 64 bits");
  EXPECT_EQ(get_bool(object, "b").error().kind, ErrorKind::invalid);
}

TEST(JsonFields, RangesAreInclusive) {
  const JsonValue object = parsed(R"({"i":5,"n":0.5})");
  EXPECT_EQ(**get_int(object, "i", 5, 5), 5);
  EXPECT_EQ(get_int(object, "i", 0, 4).error().text, "'i' is 5, wanted 0 to 4");
  EXPECT_EQ(get_int(object, "i", 6).error().text, "'i' is 5, wanted at least 6");
  EXPECT_EQ(**get_number(object, "n", 0, 0.5), 0.5);
  EXPECT_EQ(get_number(object, "n", 1, 2).error().text, "'n' is 0.5, wanted 1 to 2");
}

TEST(ParseJson, AByteOrderMarkIsPassedOver) {
  const auto value = parse_json("\xEF\xBB\xBF{\"a\":1}");
  ASSERT_TRUE(value.ok()) << value.error().text;
  EXPECT_EQ(value->find("a")->as_int64(), 1);
  EXPECT_FALSE(parse_json("\xEF\xBB\xBF\xEF\xBB\xBF{}").ok());
  EXPECT_FALSE(parse_json("\xEF\xBB").ok());
}

TEST(ParseJson, NamesWhatAnObjectHoldsTwice) {
  const std::pair<const char*, const char*> cases[] = {{R"({"a":1,"b":2,"a":1})", "the object"},
                                                       {R"([{"c":{"b":{},"a":1,"\u0061":2}}])", "'[0].c'"},
                                                       {R"({"keys":[7,{"a":true,"a":false}]})", "'keys[1]'"}};
  for (const auto& [text, place] : cases) {
    EXPECT_EQ(error_of(text), fmt::format("Invalid JSON: {} holds 'a' twice, wanted each name once", place));
    EXPECT_TRUE(parse_model_json(text).ok()) << text;
  }
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_FALSE(parse_json(many + "\"k50\":1}").ok());
  EXPECT_TRUE(parse_json(many + "\"k\":{\"k\":1}}").ok());
}

}  // namespace
}  // namespace fulmar
