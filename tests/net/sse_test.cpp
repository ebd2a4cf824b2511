// Event framing and the incremental reader, byte by byte as well as at once.
#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace fulmar {
namespace {

using Events = std::vector<std::string>;

Events events_in(std::string_view stream, size_t step) {
  SseParser parser;
  Events events;
  for (size_t i = 0; i < stream.size(); i += step) {
    EXPECT_TRUE(
        parser.feed(stream.substr(i, step), [&](std::string_view data) { events.emplace_back(data); }).ok());
  }
  return events;
}

TEST(SseEvent, IsOneLineAndABlankOne) {
  EXPECT_EQ(sse_event("{\"a\":1}"), "data: {\"a\":1}\n\n");
  EXPECT_EQ(sse_event("[DONE]"), kSseDone);
  EXPECT_EQ(sse_event(""), "data: \n\n");
  EXPECT_EQ(sse_event("a\nb\r\nc"), "data: a\ndata: b\ndata: c\n\n");
}

TEST(SseParser, ReadsEventsWhateverThePieces) {
  const std::string stream =
      "\xEF\xBB\xBF"
      "data: one\n\n: comment\nevent: x\nid: 7\n\ndata:two\rdata:  three\r\rdata\r\n\r\n\n\ndata: [DONE]\n\n"
      "data: unfinished\n";
  const Events wanted{"one", "two\n three", "", "[DONE]"};
  for (const size_t step : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, stream.size()}) {
    EXPECT_EQ(events_in(stream, step), wanted) << "in pieces of " << step;
  }
}

TEST(SseParser, ReadsBackWhatWasFramed) {
  for (const std::string data : {"", "x", "a\nb", " leading", "data: nested", "é漢😀"}) {
    EXPECT_EQ(events_in(sse_event(data), 1), Events{data});
  }
}

TEST(SseParser, RefusesEndlessEvents) {
  const auto ignore = [](std::string_view) {};
  SseParser one_line(100);
  EXPECT_FALSE(one_line.feed("data: " + std::string(200, 'x'), ignore).ok());
  EXPECT_FALSE(one_line.feed("\n\ndata: y\n\n", ignore).ok()) << "stays broken";
  SseParser many_lines(100);
  Status status;
  for (int i = 0; i < 60 && status.ok(); i++) status = many_lines.feed("data: xx\n", ignore);
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace fulmar
