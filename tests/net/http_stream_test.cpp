// Event streams: framing on the wire, independence of readers, bounds and disconnects.
#include <gmock/gmock.h>

#include <atomic>

#include "net/server_fixture.h"

namespace fulmar::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kGet = "GET /s HTTP/1.1\r\nHost: x\r\n\r\n";

// A client whose request has arrived as `exchange`.
struct Stream {
  RawSocket client;
  std::shared_ptr<Exchange> exchange;
};

Stream open_stream(const HttpServer& server, Shelf& shelf, int receive_buffer = 0) {
  RawSocket client(server.port(), receive_buffer);
  client.send(kGet);
  auto exchange = shelf.take();
  if (exchange) exchange->begin_stream(stream_head());
  return {std::move(client), std::move(exchange)};
}

TEST(HttpStream, EveryEventIsOneChunk) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  Stream stream = open_stream(*server, shelf);
  ASSERT_TRUE(stream.exchange);
  std::vector<std::string> events;
  for (int i = 0; i < 500; i++)
    events.push_back("data: " + std::string(static_cast<size_t>(i) * 7 % 300, 'e') + "\n\n");
  for (const std::string& event : events) stream.exchange->write(event);
  stream.exchange->write("");
  stream.exchange->end();

  const std::string head = stream.client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream; charset=utf-8\r\n"));
  EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
  for (const std::string& event : events) EXPECT_EQ(stream.client.read_chunk(), event);
  EXPECT_EQ(stream.client.read_chunk(), "");

  stream.client.send(kGet);
  const auto next = shelf.take();
  ASSERT_TRUE(next) << "the connection serves on after a stream";
  echo(next);
  EXPECT_EQ(stream.client.read_response().second, "GET /s\n");
}

TEST(HttpStream, EachEventIsReadAloneByAReaderThatKeepsUp) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  Stream stream = open_stream(*server, shelf);
  ASSERT_TRUE(stream.exchange);
  stream.client.read_until("\r\n\r\n");
  for (int i = 0; i < 50; i++) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    stream.exchange->write(event);
    EXPECT_EQ(stream.client.read_chunk(), event);
  }
  EXPECT_TRUE(eventually([&] { return stream.exchange->backlog_bytes() == 0; }));
}

TEST(HttpStream, Http10GetsTheBytesAndAClose) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  client.send("GET /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  exchange->begin_stream(stream_head());
  exchange->write("one,");
  exchange->write("two");
  exchange->end();
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, EndsWith("\r\n\r\none,two"));
  EXPECT_THAT(all, Not(HasSubstr("chunked")));
}

TEST(HttpStream, AnUnendedStreamIsCutWithoutALastChunk) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  Stream stream = open_stream(*server, shelf);
  ASSERT_TRUE(stream.exchange);
  stream.exchange->write("half");
  stream.client.read_until("half\r\n");
  stream.exchange.reset();
  EXPECT_EQ(stream.client.read_to_end(), "");
}

TEST(HttpStream, NoticesThatTheReaderHasGone) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  for (const bool reset : {false, true}) {
    Stream stream = open_stream(*server, shelf);
    ASSERT_TRUE(stream.exchange);
    std::atomic<int> told{0};
    stream.exchange->on_disconnect([&] { told++; });
    stream.exchange->write("data: 1\n\n");
    stream.client.read_until("1\n\n");
    reset ? stream.client.reset() : stream.client.close();
    EXPECT_TRUE(eventually([&] { return told == 1; })) << "without another write";
    stream.exchange->write("data: 2\n\n");
    stream.exchange->end();
    EXPECT_EQ(told, 1);
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0 && server->open_exchanges() == 0; }));
}

TEST(HttpStream, AReaderThatStopsIsCutOffAtTheBound) {
  Shelf shelf;
  HttpServerOptions options;
  options.max_stream_backlog_bytes = 100'000;
  const auto server = serve(shelf.handler(), options);
  Stream stream = open_stream(*server, shelf, 4096);
  ASSERT_TRUE(stream.exchange);
  std::atomic<int> told{0};
  stream.exchange->on_disconnect([&] { told++; });
  const std::string event(1000, 'e');
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 50; i++) stream.exchange->write(event);
    EXPECT_LE(stream.exchange->backlog_bytes(), 200'000u);
    return told == 1;
  }));
  EXPECT_TRUE(stream.exchange->disconnected());
  EXPECT_THAT(stream.client.read_to_end(), Not(EndsWith("0\r\n\r\n")));
}

TEST(HttpStream, TheWriterLearnsWhenTheReaderHasCaughtUp) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  Stream stream = open_stream(*server, shelf, 64 << 10);
  ASSERT_TRUE(stream.exchange);
  const std::string event(64 << 10, 'e');
  constexpr size_t kEvents = 48;  // 3 MiB
  for (size_t i = 0; i < kEvents; i++) stream.exchange->write(event);
  std::atomic<int> told{0};
  std::atomic<size_t> left{0};
  stream.exchange->on_backlog_below(1 << 20, [&] {
    left = stream.exchange->backlog_bytes();
    told++;
  });
  stream.client.read_until("\r\n\r\n");
  for (size_t i = 0; i < kEvents; i++) EXPECT_EQ(stream.client.read_chunk().size(), event.size());
  EXPECT_TRUE(eventually([&] { return told == 1; }));
  EXPECT_LE(left, size_t{1} << 20);
  stream.exchange->on_backlog_below(1 << 20, [&] { told++; });
  EXPECT_EQ(told, 2) << "at once where nothing waits";
}

TEST(HttpStream, AReaderThatTakesNothingIsCutOffInTime) {
  Shelf shelf;
  HttpServerOptions options;
  options.write_timeout = std::chrono::milliseconds(200);
  const auto server = serve(shelf.handler(), options);
  RawSocket client(server->port(), 4096);
  client.send(kGet);
  auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  exchange->respond({.body = std::string(32 << 20, 'b')});
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_TRUE(exchange->disconnected());
}

TEST(HttpStream, AReaderOfSingleBytesDoesNotHoldUpOthers) {
  Shelf shelf;
  HttpServerOptions options;
  options.threads = 1;
  const auto server = serve(shelf.handler(), options);
  Stream slow = open_stream(*server, shelf, 2048);
  Stream quick = open_stream(*server, shelf);
  ASSERT_TRUE(slow.exchange && quick.exchange);
  const std::string event = "data: " + std::string(1000, 'x') + "\n\n";
  constexpr int kEvents = 2000;
  std::thread engine([&] {
    for (int i = 0; i < kEvents; i++) {
      slow.exchange->write(event);
      quick.exchange->write(event);
    }
    quick.exchange->end();
    slow.exchange->end();
  });
  for (int i = 0; i < 100; i++) slow.client.receive(1);
  quick.client.read_until("\r\n\r\n");
  for (int i = 0; i < kEvents; i++) ASSERT_EQ(quick.client.read_chunk(), event);
  EXPECT_EQ(quick.client.read_chunk(), "");
  engine.join();
  slow.client.read_until("\r\n\r\n");
  for (int i = 0; i < kEvents; i++)
    ASSERT_EQ(slow.client.read_chunk(), event) << "chunks stay apart when it lags";
  EXPECT_EQ(slow.client.read_chunk(), "");
}

TEST(HttpStream, FiveHundredStreamsFromOneThread) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::vector<Stream> streams;
  for (int i = 0; i < 500; i++) {
    streams.push_back(open_stream(*server, shelf));
    ASSERT_TRUE(streams.back().exchange);
  }
  constexpr int kSteps = 40;
  for (int step = 0; step < kSteps; step++) {
    for (Stream& stream : streams) stream.exchange->write("data: " + std::to_string(step) + "\n\n");
  }
  for (Stream& stream : streams) stream.exchange->end();
  for (Stream& stream : streams) {
    stream.client.read_until("\r\n\r\n");
    for (int step = 0; step < kSteps; step++) {
      ASSERT_EQ(stream.client.read_chunk(), "data: " + std::to_string(step) + "\n\n");
    }
    ASSERT_EQ(stream.client.read_chunk(), "");
  }
}

TEST(HttpStream, ThreeHundredReadersVanishingAtOnceAreAllNoticed) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::atomic<int> told{0};
  std::vector<std::shared_ptr<Exchange>> exchanges;
  {
    std::vector<Stream> streams;
    for (int i = 0; i < 300; i++) {
      streams.push_back(open_stream(*server, shelf));
      ASSERT_TRUE(streams.back().exchange);
      streams.back().exchange->on_disconnect([&] { told++; });
      exchanges.push_back(streams.back().exchange);
    }
  }
  EXPECT_TRUE(eventually([&] { return told == 300; }));
}

TEST(HttpStream, WritersOnManyThreadsAgainstVanishingReaders) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::vector<std::thread> writers;
  for (int i = 0; i < 8; i++) {
    Stream stream = open_stream(*server, shelf);
    ASSERT_TRUE(stream.exchange);
    writers.emplace_back([exchange = std::move(stream.exchange)] {
      while (!exchange->disconnected()) exchange->write("data: x\n\n");
    });
    stream.client.read_until("x\n\n");
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(eventually([&] { return server->open_exchanges() == 0; }));
}

}  // namespace
}  // namespace fulmar::test
