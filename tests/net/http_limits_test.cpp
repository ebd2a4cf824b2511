// Requests that break the grammar, a limit or a deadline: each gets a status and harms nobody else.
#include <gmock/gmock.h>

#include <atomic>

#include "net/server_fixture.h"

namespace fulmar::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string status_of(uint16_t port, std::string_view bytes) {
  RawSocket client(port);
  client.send(bytes);
  return client.read_until("\r\n").substr(0, 12);
}

struct BadRequest {
  const char* name;
  std::string bytes;
  const char* status;
};

class BadRequests : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequests, IsRefusedAndTheServerGoesOn) {
  std::atomic<int> handled{0};
  const auto server = serve([&](const std::shared_ptr<Exchange>& exchange) {
    handled++;
    echo(exchange);
  });
  EXPECT_EQ(status_of(server->port(), GetParam().bytes), std::string("HTTP/1.1 ") + GetParam().status);
  EXPECT_EQ(handled, 0);
  EXPECT_EQ(status_of(server->port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200");
}

const std::string kPost = "POST / HTTP/1.1\r\nHost: x\r\n";

INSTANTIATE_TEST_SUITE_P(
    All, BadRequests,
    testing::Values(
        BadRequest{"Garbage", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 15), "400"},
        BadRequest{"Words", "hello there\r\n\r\n", "400"},
        BadRequest{"WrongVersion", "GET / HTTP/3.7\r\nHost: x\r\n\r\n", "505"},
        BadRequest{"NegativeLength", kPost + "Content-Length: -1\r\n\r\n", "400"},
        BadRequest{"WordyLength", kPost + "Content-Length: many\r\n\r\n", "400"},
        BadRequest{"OverflowingLength", kPost + "Content-Length: 99999999999999999999999\r\n\r\n", "400"},
        BadRequest{"HugeLength", kPost + "Content-Length: 9223372036854775807\r\n\r\n", "413"},
        BadRequest{"TwoLengths", kPost + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
        BadRequest{"LengthAndChunks",
                   kPost + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        BadRequest{"ChunksAndLength",
                   kPost + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "400"},
        BadRequest{"UnknownCoding", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
        BadRequest{"BadChunkSize", kPost + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", "400"},
        BadRequest{"HugeChunkSize", kPost + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "400"},
        BadRequest{"UnknownExpectation", kPost + "Expect: miracles\r\nContent-Length: 2\r\n\r\n", "417"},
        BadRequest{"HugeHead", "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'h') + "\r\n\r\n", "431"},
        BadRequest{"HugeTarget", "GET /" + std::string(100'000, 'p') + " HTTP/1.1\r\n\r\n", "431"},
        BadRequest{"BrokenEscape", "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        BadRequest{"NulInPath", "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        BadRequest{"NotUtf8Path", "GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
        BadRequest{"RelativeTarget", "GET path HTTP/1.1\r\nHost: x\r\n\r\n", "400"}),
    [](const auto& each) { return each.param.name; });

TEST(HttpLimits, BodyOfExactlyTheLimitPassesAndOneMoreByteDoesNot) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  const auto server = serve(echo, options);
  const auto post = [](size_t size) {
    return kPost + "Content-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'b');
  };
  EXPECT_EQ(status_of(server->port(), post(1000)), "HTTP/1.1 200");
  EXPECT_EQ(status_of(server->port(), post(1001)), "HTTP/1.1 413");
  EXPECT_EQ(status_of(server->port(), kPost + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" +
                                          std::string(1001, 'b') + "\r\n0\r\n\r\n"),
            "HTTP/1.1 413");
}

TEST(HttpLimits, TheRefusalOfALargeBodyReachesAClientThatKeepsSending) {
  HttpServerOptions options;
  options.max_body_bytes = 1000;
  const auto server = serve(echo, options);
  RawSocket client(server->port());
  client.send(kPost + "Content-Length: 8000000\r\n\r\n");
  client.send(std::string(8'000'000, 'b'));
  EXPECT_THAT(client.read_until("\r\n"), StartsWith("HTTP/1.1 413"));
}

TEST(HttpLimits, TheFormatterSeesWhatWasUnderstood) {
  HttpServerOptions options;
  options.max_body_bytes = 10;
  options.format_error = [](const HttpRequest& request, int status, std::string_view text) {
    HttpResponse response;
    response.status = status;
    response.headers.add("Access-Control-Allow-Origin", "*");
    response.body = request.method + " " + request.path + ": " + std::string(text);
    return response;
  };
  const auto server = serve([](const std::shared_ptr<Exchange>&) {}, options);
  {
    RawSocket client(server->port());
    client.send("POST /v1/x?y HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n");
    const auto [head, body] = client.read_response();
    EXPECT_THAT(head, HasSubstr("Access-Control-Allow-Origin: *\r\n"));
    EXPECT_EQ(body, "POST /v1/x: the body is larger than 10 bytes");
  }
  RawSocket client(server->port());
  client.send("GET /dropped HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.read_response().second, StartsWith("GET /dropped: "));
}

TEST(HttpLimits, AClientThatLeavesInTheMiddleIsForgotten) {
  std::atomic<int> handled{0};
  const auto server = serve([&](const std::shared_ptr<Exchange>&) { handled++; });
  for (const std::string& start : {std::string("GE"), kPost, kPost + "Content-Length: 10\r\n\r\nabc",
                                   kPost + "Transfer-Encoding: chunked\r\n\r\n5\r\nhe"}) {
    RawSocket(server->port()).send(start);
    RawSocket resetting(server->port());
    resetting.send(start);
    resetting.reset();
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(handled, 0);
}

TEST(HttpLimits, SlowHeadsAndBodiesEndIn408) {
  HttpServerOptions options;
  options.head_timeout = std::chrono::milliseconds(100);
  options.body_timeout = std::chrono::milliseconds(100);
  const auto server = serve(echo, options);
  EXPECT_EQ(status_of(server->port(), "GET / HT"), "HTTP/1.1 408");
  EXPECT_EQ(status_of(server->port(), kPost + "Content-Length: 10\r\n\r\nabc"), "HTTP/1.1 408");
}

TEST(HttpLimits, AnIdleConnectionIsClosedWithoutAWord) {
  HttpServerOptions options;
  options.idle_timeout = std::chrono::milliseconds(100);
  const auto server = serve(echo, options);
  RawSocket client(server->port());
  EXPECT_EQ(client.read_to_end(), "");
}

}  // namespace
}  // namespace fulmar::test
