// Clients that close their side after the request: those that still read get the whole answer, and those that
// have gone are noticed.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "net/raw_socket.h"
#include "net/server_fixture.h"

namespace fulmar {
namespace {

using namespace test;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr std::string_view kOldGet = "GET /a HTTP/1.0\r\n\r\n";
constexpr std::string_view kProcessing = "HTTP/1.1 102 Processing\r\n\r\n";

// Sends `request` and closes this side.
void ask_and_close(RawSocket& client, std::string_view request) {
  client.send(request);
  client.end_input();
}

TEST(HalfClosed, TheWholeAnswerIsSentHoweverLateItComes) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port(), 4096);
  ask_and_close(client, kGet);
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  // The server has seen the end, and asked twice.
  EXPECT_EQ(client.read_until(kProcessing), kProcessing);
  EXPECT_EQ(client.read_until(kProcessing), kProcessing);
  EXPECT_FALSE(exchange->disconnected());
  HttpResponse response;
  response.body = std::string(size_t{8} << 20, 'x');
  exchange->respond(std::move(response));
  const std::string rest = client.read_to_end();
  const size_t at = rest.find("HTTP/1.1 200");
  ASSERT_NE(at, std::string::npos);
  EXPECT_NE(rest.find("Connection: close\r\n"), std::string::npos);
  EXPECT_EQ(rest.size() - rest.find("\r\n\r\n", at) - 4, size_t{8} << 20);
}

TEST(HalfClosed, PipelinedRequestsAreAllAnswered) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  ask_and_close(client, std::string(kGet) + std::string(kGet));
  for (int i = 0; i < 2; i++) {
    const auto exchange = shelf.take();
    ASSERT_TRUE(exchange);
    client.read_until(kProcessing);
    echo(exchange);
    EXPECT_NE(client.read_until("GET /a\n").find("HTTP/1.1 200"), std::string::npos) << i;
  }
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(HalfClosed, AStreamGoesOnToItsEnd) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  ask_and_close(client, kGet);
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  client.read_until(kProcessing);  // the end has been seen
  exchange->begin_stream(stream_head());
  exchange->write("data: 1\n\n");
  client.read_until("chunked");
  client.read_until("\r\n\r\n");
  EXPECT_EQ(client.read_chunk(), "data: 1\n\n");
  exchange->end();
  EXPECT_EQ(client.read_chunk(), "");
  EXPECT_EQ(client.read_to_end(), "");
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

// Where no question can be put, silence counts as the client's leaving, and nothing is put into the answer.
TEST(HalfClosed, WhereNothingCanAskSilenceIsALeaving) {
  for (const auto& [request, written] : {std::pair(kOldGet, ""), {kGet, "data: 1\n\n"}}) {
    Shelf shelf;
    const auto server = serve(shelf.handler());
    RawSocket client(server->port());
    ask_and_close(client, request);
    const auto exchange = shelf.take();
    ASSERT_TRUE(exchange);
    std::atomic<bool> gone{false};
    exchange->on_disconnect([&] { gone = true; });
    if (request == kGet) exchange->begin_stream(stream_head());
    exchange->write(written);
    EXPECT_TRUE(eventually([&] { return gone.load(); })) << request;
    const std::string received = client.read_to_end();
    EXPECT_TRUE(received.ends_with(request == kGet ? "9\r\ndata: 1\n\n\r\n" : "")) << received;
    EXPECT_TRUE(request == kGet || received.empty()) << received;
  }
}

TEST(HalfClosed, AClientOfHttp10GetsAnAnswerThatIsReady) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  ask_and_close(client, kOldGet);
  EXPECT_TRUE(client.read_to_end().ends_with("\r\n\r\nGET /a\n"));
}

// A closed socket looks the same until the question is answered by a reset.
TEST(HalfClosed, WhoHasClosedTheSocketIsNoticedInEveryForm) {
  for (const auto& [request, head] :
       {std::pair(kGet, false), {kOldGet, false}, {kGet, true}, {kOldGet, true}}) {
    Shelf shelf;
    const auto server = serve(shelf.handler());
    RawSocket client(server->port());
    client.send(request);
    const auto exchange = shelf.take();
    ASSERT_TRUE(exchange);
    std::atomic<bool> gone{false};
    exchange->on_disconnect([&] { gone = true; });
    if (head) exchange->begin_stream(stream_head());
    if (head) client.read_until("\r\n\r\n");
    client.close();
    EXPECT_TRUE(eventually([&] { return gone.load(); })) << request << head;
  }
}

}  // namespace
}  // namespace fulmar
