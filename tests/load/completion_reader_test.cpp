#include "load/completion_reader.h"

#include <gmock/gmock.h>

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kFirst = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n";
constexpr std::string_view kLast = "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
constexpr std::string_view kDone = "data: [DONE]\n\n";

AnswerRecord read(std::initializer_list<std::string_view> pieces, std::string_view trouble = {}) {
  CompletionReader reader(0);
  reader.head(200);
  double now = 1;
  for (const std::string_view piece : pieces) reader.feed(piece, now++);
  reader.end(trouble, now);
  return reader.record();
}

TEST(CompletionReader, KeepsTheTimesOfText) {
  const AnswerRecord record = read({kFirst, kFirst, kLast, kDone});
  EXPECT_TRUE(record.succeeded());
  EXPECT_THAT(record.text_at, ElementsAre(1, 2));
  EXPECT_EQ(record.finish_reason, "length");
  EXPECT_EQ(record.ended_at, 4);
}

TEST(CompletionReader, TakesLinesInAnyPieces) {
  const AnswerRecord record = read({kFirst.substr(0, 9), kFirst.substr(9), "data: [DO", "NE]"});
  EXPECT_TRUE(record.succeeded());
  EXPECT_THAT(record.text_at, ElementsAre(2));
}

TEST(CompletionReader, TakesCarriageReturnsForBlanks) {
  EXPECT_TRUE(read({"data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata: [DONE]\r\n"}).succeeded());
}

TEST(CompletionReader, RefusesLinesThatTheClientCannotParse) {
  for (const std::string_view line :
       {": ping\n", "event: x\n", "data: {}\n", "data: {\"choices\":[]}\n", "data: {\"choices\":[{}]}\n",
        "data: {\"choices\":[{\"text\":null}]}\n"}) {
    const AnswerRecord record = read({line, kDone});
    EXPECT_FALSE(record.succeeded()) << line;
    EXPECT_THAT(record.fault, HasSubstr("without choices[0].text")) << line;
  }
}

TEST(CompletionReader, NothingMayFollowTheEnd) {
  EXPECT_THAT(read({kDone, kFirst}).fault, HasSubstr("after [DONE]"));
  EXPECT_THAT(read({kDone, kDone}).fault, HasSubstr("after [DONE]"));
}

TEST(CompletionReader, AStreamWithoutAnEndHasFailed) {
  EXPECT_THAT(read({kFirst}).fault, HasSubstr("without [DONE]"));
  EXPECT_EQ(read({kFirst}, "cut off").fault, "cut off");
}

TEST(CompletionReader, AnErrorIsToldWithItsBody) {
  CompletionReader reader(0);
  reader.head(503);
  reader.feed("{\"error\":\"Request queue full\"}\n", 1);
  reader.end({}, 1);
  EXPECT_EQ(reader.record().fault, "HTTP 503 {\"error\":\"Request queue full\"}");
  EXPECT_THAT(reader.record().text_at, IsEmpty());
}

}  // namespace
}  // namespace fulmar
