// Whole requests and whole answers over real sockets.
#include <gmock/gmock.h>

#include <atomic>
#include <limits>

#include "net/server_fixture.h"

namespace fulmar::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(HttpServer, AnswersAndKeepsTheConnection) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  for (int i = 0; i < 3; i++) {
    client.send("POST /x/y/?a=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    const auto [head, body] = client.read_response();
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(head, HasSubstr("Content-Type: text/plain\r\n"));
    EXPECT_THAT(head, HasSubstr("Connection: keep-alive\r\n"));
    EXPECT_EQ(body, "POST /x/y\nabc");
  }
}

TEST(HttpServer, GivesTheHandlerThePartsOfTheRequest) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  client.send(
      "PUT /a%20b/%C3%A9/?k=v+w&k=%31&flag HTTP/1.1\r\nHost: h\r\nX-Thing:  one \r\nContent-Length: "
      "2\r\n\r\nhi");
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  const HttpRequest& request = exchange->request();
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.path, "/a b/é");
  EXPECT_EQ(request.target, "/a%20b/%C3%A9/?k=v+w&k=%31&flag");
  EXPECT_EQ(*request.query.find("k"), "1");
  EXPECT_EQ(*request.query.find("flag"), "");
  EXPECT_EQ(request.headers.get("x-thing"), "one");
  EXPECT_THAT(request.remote_address, StartsWith("127.0.0.1:"));
  EXPECT_EQ(exchange->take_body(), "hi");
  EXPECT_EQ(request.body, "");
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  std::string requests;
  for (int i = 0; i < 200; i++) requests += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(requests);
  for (int i = 0; i < 200; i++) EXPECT_EQ(client.read_response().second, "GET /" + std::to_string(i) + "\n");
}

TEST(HttpServer, PipelinedInputBeyondTheReadAheadWaits) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  client.send(kGet);
  const auto first = shelf.take();
  ASSERT_TRUE(first);
  const std::string body(300'000, 'b');
  client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + body);
  echo(first);
  EXPECT_EQ(client.read_response().second, "GET /a\n");
  const auto second = shelf.take();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->request().body, body);
}

TEST(HttpServer, ReadsAChunkedBody) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  client.send("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
  client.send("6;ext=1\r\n world\r\n0\r\nTrailer: t\r\n\r\n");
  EXPECT_EQ(client.read_response().second, "POST /c\nhello world");
}

TEST(HttpServer, ReadsALargeBodyInPieces) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  std::string body(10 << 20, '\0');
  for (size_t i = 0; i < body.size(); i++) body[i] = static_cast<char>(i * 131 >> 7);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
  client.send(body);
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  EXPECT_TRUE(exchange->request().body == body);
  HttpResponse response;
  response.body = exchange->take_body();
  exchange->respond(std::move(response));
  EXPECT_TRUE(client.read_response().second == body);
}

TEST(HttpServer, SendsContinueWhenAsked) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  client.send("POST /e HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_EQ(client.read_response().second, "POST /e\nok");
}

TEST(HttpServer, ClosesAfterHttp10UnlessAskedToKeep) {
  const auto server = serve(echo);
  RawSocket once(server->port());
  once.send("GET /old HTTP/1.0\r\n\r\n");
  EXPECT_THAT(once.read_to_end(), testing::EndsWith("\r\n\r\nGET /old\n"));
  RawSocket kept(server->port());
  for (int i = 0; i < 2; i++) {
    kept.send("GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(kept.read_response().second, "GET /old\n");
  }
}

TEST(HttpServer, ClosesWhenTheClientAsks) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  client.send("GET /bye HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_to_end();
  EXPECT_THAT(all, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(all, testing::EndsWith("GET /bye\n"));
}

TEST(HttpServer, HeadGetsNoBody) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  client.send("HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kGet));
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Content-Length: 8\r\n"));
  EXPECT_EQ(client.read_response().second, "GET /a\n");
}

TEST(HttpServer, NoContentHasNeitherBodyNorLength) {
  const auto server = serve([](const std::shared_ptr<Exchange>& exchange) {
    HttpResponse response;
    response.status = 204;
    response.body = "ignored";
    exchange->respond(std::move(response));
  });
  RawSocket client(server->port());
  client.send(kGet);
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 204 No Content\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
  client.send(kGet);
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 204"));
}

TEST(HttpServer, HeadersCannotBreakOutOfTheirLine) {
  const auto server = serve([](const std::shared_ptr<Exchange>& exchange) {
    HttpResponse response;
    response.headers.add("X-Echo", "a\r\nX-Evil: 1");
    response.headers.add("Bad Name", "dropped");
    response.headers.add("Content-Length", "999");
    exchange->respond(std::move(response));
  });
  RawSocket client(server->port());
  client.send(kGet);
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("X-Echo: a  X-Evil: 1\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("Bad Name")));
  EXPECT_THAT(head, HasSubstr("Content-Length: 0\r\n"));
}

TEST(HttpServer, AnExchangeDroppedWithoutAnswerIsA500) {
  const auto server = serve([](const std::shared_ptr<Exchange>&) {});
  RawSocket client(server->port());
  for (int i = 0; i < 2; i++) {
    client.send(kGet);
    const auto [head, body] = client.read_response();
    EXPECT_THAT(head, StartsWith("HTTP/1.1 500 "));
    EXPECT_EQ(body, R"({"error":"the request was dropped without an answer"})");
  }
}

TEST(HttpServer, AThrowingHandlerIsA500) {
  const auto server =
      serve([](const std::shared_ptr<Exchange>&) { throw std::runtime_error("out of luck"); });
  RawSocket client(server->port());
  client.send(kGet);
  EXPECT_THAT(client.read_response().first, StartsWith("HTTP/1.1 500 "));
}

TEST(HttpServer, OnlyTheFirstAnswerCounts) {
  const auto server = serve([](const std::shared_ptr<Exchange>& exchange) {
    echo(exchange);
    exchange->respond({.status = 500});
    exchange->begin_stream({});
    exchange->write("nothing");
    exchange->end();
  });
  RawSocket client(server->port());
  for (int i = 0; i < 2; i++) {
    client.send(kGet);
    EXPECT_EQ(client.read_response().second, "GET /a\n");
  }
}

TEST(HttpServer, AnswersFromAnyThread) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket client(server->port());
  client.send(kGet);
  auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  std::thread([&] { echo(exchange); }).join();
  EXPECT_EQ(client.read_response().second, "GET /a\n");
}

TEST(HttpServer, TellsAWaitingHandlerThatTheClientHasGone) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  for (const bool reset : {false, true}) {
    RawSocket client(server->port());
    client.send(kGet);
    const auto exchange = shelf.take();
    ASSERT_TRUE(exchange);
    std::atomic<int> told{0};
    exchange->on_disconnect([&] { told++; });
    EXPECT_EQ(told, 0);
    reset ? client.reset() : client.close();
    EXPECT_TRUE(eventually([&] { return told == 1; }));
    EXPECT_TRUE(exchange->disconnected());
    echo(exchange);
    exchange->on_disconnect([&] { told += 10; });
    EXPECT_EQ(told, 11) << "a callback that comes late runs at once";
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(server->open_exchanges(), 0u);
}

TEST(HttpServer, AnAnsweredExchangeDoesNotReportTheClientsGoing) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::atomic<int> told{0};
  auto client = std::make_unique<RawSocket>(server->port());
  client->send(kGet);
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  exchange->on_disconnect([&] { told++; });
  echo(exchange);
  client->read_response();
  client.reset();
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(told, 0);
}

TEST(HttpServer, ATakenPortIsAnErrorThatNamesIt) {
  const auto server = serve(echo);
  HttpServerOptions options;
  options.port = server->port();
  const auto second = HttpServer::start(options, echo);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::io);
  EXPECT_THAT(second.error().text, HasSubstr("127.0.0.1:" + std::to_string(server->port())));
  EXPECT_THAT(second.error().text, HasSubstr("in use"));
}

TEST(HttpServer, BadOptionsAreErrors) {
  EXPECT_FALSE(HttpServer::start({.host = "no such host"}, echo).ok());
  EXPECT_FALSE(HttpServer::start({.host = "203.0.113.1"}, echo).ok());
  EXPECT_FALSE(HttpServer::start({.threads = 0}, echo).ok());
  EXPECT_FALSE(HttpServer::start({.threads = 1000}, echo).ok());
}

TEST(HttpServer, ListensOnIpv6) {
  const auto server = HttpServer::start({.host = "::1"}, echo);
  if (!server.ok()) GTEST_SKIP() << "no IPv6 here: " << server.error().text;
  EXPECT_THAT((*server)->address(), StartsWith("[::1]:"));
}

TEST(HttpServer, StopAcceptingLetsTheRunningRequestFinish) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  RawSocket busy(server->port());
  RawSocket idle(server->port());
  busy.send(kGet);
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  server->stop_accepting();
  EXPECT_EQ(idle.read_to_end(), "") << "closed after the linger";
  EXPECT_TRUE(eventually([&] { return !RawSocket(server->port()).connected(); }));
  EXPECT_FALSE(server->drain(std::chrono::steady_clock::now()));
  echo(exchange);
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + kPatience));
  const std::string answer = busy.read_to_end();
  EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(answer, testing::EndsWith("GET /a\n"));
}

// A client cannot know that the server ends, and has sent its request already.
TEST(HttpServer, AKeptAliveConnectionIsAnsweredOnceMoreWhileTheServerEnds) {
  const auto server = serve(echo, {.idle_linger = kPatience});
  RawSocket used(server->port());
  used.send(kGet);
  EXPECT_THAT(used.read_response().first, HasSubstr("Connection: keep-alive\r\n"));
  RawSocket unused(server->port());
  ASSERT_TRUE(eventually([&] { return server->connections() == 2; }));
  server->stop_accepting();
  ASSERT_TRUE(eventually([&] { return !RawSocket(server->port()).connected(); }));
  for (RawSocket* client : {&used, &unused}) {
    client->send(kGet);
    const std::string answer = client->read_to_end();
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n"));
    EXPECT_THAT(answer, testing::EndsWith("GET /a\n"));
  }
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + kPatience));
}

TEST(HttpServer, DrainWaitsForConnectionsThatMayStillAsk) {
  const auto server = serve(echo, {.idle_linger = kPatience});
  RawSocket client(server->port());
  ASSERT_TRUE(eventually([&] { return server->connections() == 1; }));
  std::atomic<bool> drained{false};
  std::thread ending([&] {
    EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + 2 * kPatience));
    drained = true;
  });
  ASSERT_TRUE(eventually([&] { return !RawSocket(server->port()).connected(); }));
  EXPECT_FALSE(drained);
  client.send(kGet);
  EXPECT_THAT(client.read_to_end(), testing::EndsWith("GET /a\n"));
  ending.join();
}

TEST(HttpServer, ConnectionsCloseAfterTheirAnswerBeforeTheListenerDoes) {
  const auto server = serve(echo);
  RawSocket before(server->port());
  ASSERT_TRUE(eventually([&] { return server->connections() == 1; }));
  server->close_after_answers();
  RawSocket after(server->port());
  for (RawSocket* client : {&before, &after}) {
    client->send(kGet);
    EXPECT_THAT(client->read_to_end(), HasSubstr("Connection: close\r\n"));
  }
}

TEST(HttpServer, StopCutsWhatStillRunsAndExchangesOutliveIt) {
  Shelf shelf;
  std::shared_ptr<Exchange> waiting;
  std::shared_ptr<Exchange> streaming;
  std::atomic<int> told{0};
  {
    const auto server = serve(shelf.handler());
    RawSocket first(server->port());
    first.send(kGet);
    waiting = shelf.take();
    RawSocket second(server->port());
    second.send(kGet);
    streaming = shelf.take();
    ASSERT_TRUE(waiting && streaming);
    waiting->on_disconnect([&] { told++; });
    streaming->on_disconnect([&] { told++; });
    streaming->begin_stream(stream_head());
    server->stop();
    server->stop();
    EXPECT_EQ(told, 2);
  }
  EXPECT_TRUE(waiting->disconnected());
  echo(waiting);
  streaming->write("late");
  streaming->end();
}

TEST(HttpServer, TwoThousandIdleConnectionsDoNotDisturbAnother) {
  const auto server = serve(echo);
  std::vector<RawSocket> idle;
  for (int i = 0; i < 2000; i++) idle.emplace_back(server->port());
  EXPECT_TRUE(eventually([&] { return server->connections() == 2000; }));
  RawSocket client(server->port());
  client.send(kGet);
  EXPECT_EQ(client.read_response().second, "GET /a\n");
  for (RawSocket& each : idle) ASSERT_TRUE(each.send(kGet));
  for (RawSocket& each : idle) ASSERT_EQ(each.read_response().second, "GET /a\n");
}

TEST(HttpServer, ConnectionsBeyondTheBoundAreClosed) {
  HttpServerOptions options;
  options.max_connections = 4;
  const auto server = serve(echo, options);
  RawSocket first(server->port());
  RawSocket second(server->port());
  EXPECT_TRUE(eventually([&] { return server->connections() == 2; }));
  RawSocket third(server->port());
  EXPECT_EQ(third.read_to_end(), "");
  first.send(kGet);
  EXPECT_EQ(first.read_response().second, "GET /a\n");
}

TEST(HttpServer, OneClientsConnectionsLeaveRoomForOthers) {
  HttpServerOptions options;
  options.max_connections = 64;
  options.proxies.trusted = read_networks({"127.0.0.9"}).value();
  const auto server = serve(echo, options);
  std::vector<RawSocket> flood, proxied;
  for (int i = 0; i < 100; i++) flood.emplace_back(server->port(), 0, "127.0.0.2");
  EXPECT_TRUE(eventually([&] { return server->connections() == 32; }));
  RawSocket other(server->port(), 0, "127.0.0.3");
  other.send(kGet);
  EXPECT_EQ(other.read_response().second, "GET /a\n");
  for (int i = 0; i < 30; i++) proxied.emplace_back(server->port(), 0, "127.0.0.9");
  EXPECT_TRUE(eventually([&] { return server->connections() == 63; }));
  flood.clear();
  EXPECT_TRUE(eventually([&] { return server->connections() == 31; }));
  RawSocket again(server->port(), 0, "127.0.0.2");
  again.send(kGet);
  EXPECT_EQ(again.read_response().second, "GET /a\n");
}

}  // namespace
}  // namespace fulmar::test
