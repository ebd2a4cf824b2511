// Requests that break the grammar, a limit or a deadline: each gets a status and harms nobody else.
#include <gmock/gmock.h>
#include <spdlog/sinks/sink.h>
#include <sys/resource.h>

#include <atomic>
#include <new>

#include "base/log.h"
#include "net/exchange_state.h"
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
        BadRequest{"EndlessExtension",
                   kPost + "Transfer-Encoding: chunked\r\n\r\n1;x=" + std::string(1'000'000, 'a'), "431"},
        BadRequest{"EndlessTrailer",
                   kPost + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(1'000'000, 'a'), "431"},
        BadRequest{"HugeTarget", "GET /" + std::string(100'000, 'p') + " HTTP/1.1\r\n\r\n", "431"},
        BadRequest{"NoHost", "GET / HTTP/1.1\r\nX: y\r\n\r\n", "400"},
        BadRequest{"TwoHosts", "GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", "400"},
        BadRequest{"OldChunks", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        BadRequest{"TwoOldHosts", "GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", "400"},
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

// Want of memory shows as an exception in the midst of an IO thread's work.
TEST(HttpLimits, AnAnswerThatCannotBeWrittenEndsItsConnectionAlone) {
  HttpServerOptions options;
  options.threads = 1;
  options.format_error = [](const HttpRequest&, int, std::string_view) -> HttpResponse {
    throw std::bad_alloc();
  };
  const auto server = serve(
      [](const std::shared_ptr<Exchange>& exchange) {
        if (exchange->request().path == "/dropped") return;
        HttpResponse response;
        response.body = "here";
        exchange->respond(std::move(response));
      },
      options);
  RawSocket kept(server->port());
  for (int i = 0; i < 3; i++) {
    RawSocket client(server->port());
    client.send("GET /dropped HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(client.read_to_end(), "");
    kept.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(kept.read_response().second, "here");
  }
}

TEST(DeliveryInbox, TriesAgainToWakeWhoeverCouldNotBeWoken) {
  int woken = 0;
  bool short_of_memory = true;
  DeliveryInbox inbox([&] {
    woken++;
    if (short_of_memory) throw std::bad_alloc();
  });
  inbox.put({});
  short_of_memory = false;
  inbox.put({});
  EXPECT_EQ(woken, 2);
  inbox.put({});
  EXPECT_EQ(woken, 2);
  std::vector<Delivery> taken;
  inbox.take(taken);
  EXPECT_EQ(taken.size(), 3U);
  inbox.put({});
  EXPECT_EQ(woken, 3);
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

HttpServerOptions behind_a_proxy() {
  HttpServerOptions options;
  options.max_held_body_bytes = 100'000;
  options.max_held_unkeyed_body_bytes = 40'000;
  options.proxies.trusted = read_networks({"127.0.0.1"}).value();
  options.body_rule = [](const HttpRequest& head) {
    return BodyRule{.most_bytes = 1'000'000, .keyed = head.headers.find("Authorization") != nullptr};
  };
  return options;
}

std::string post_of(const std::string& client, size_t size, size_t sent, bool keyed = true) {
  return kPost + "X-Forwarded-For: " + client + (keyed ? "\r\nAuthorization: Bearer x" : "") +
         "\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(sent, 'b');
}

TEST(HttpLimits, OneClientsBodiesLeaveOthersTheirPart) {
  Shelf shelf;
  const auto server = serve(shelf.handler(), behind_a_proxy());
  RawSocket first(server->port());
  first.send(post_of("1.1.1.1", 45'000, 45'000));
  const auto held = shelf.take();
  ASSERT_TRUE(held);
  EXPECT_EQ(status_of(server->port(), post_of("1.1.1.1", 10'000, 10'000)), "HTTP/1.1 503");
  RawSocket other(server->port());
  other.send(post_of("2.2.2.2", 25'000, 25'000));
  EXPECT_TRUE(shelf.take());

  EXPECT_EQ(held->take_body().size(), 45'000u);
  RawSocket again(server->port());
  again.send(post_of("1.1.1.1", 40'000, 40'000));
  EXPECT_TRUE(shelf.take()) << "what a handler has taken counts no more, nor what was refused";
}

TEST(HttpLimits, WhoHasShownNoKeyHasAPartOfItsOwn) {
  const auto server = serve(echo, behind_a_proxy());
  std::vector<std::unique_ptr<RawSocket>> strangers;
  for (int i = 0; i < 20; i++) {
    strangers.push_back(std::make_unique<RawSocket>(server->port()));
    strangers.back()->send(post_of("9.9.9." + std::to_string(i), 30'000, 10'000, false));
  }
  ASSERT_TRUE(eventually([&] { return server->held_body_bytes() >= 30'000; }));
  EXPECT_LE(server->held_body_bytes(), 40'000u);
  EXPECT_EQ(status_of(server->port(), post_of("1.1.1.1", 49'000, 49'000)), "HTTP/1.1 200");
}

TEST(HttpLimits, AnUnfinishedBodyCountsUntilItsClientGoes) {
  const auto server = serve(echo, behind_a_proxy());
  RawSocket unfinished(server->port());
  unfinished.send(post_of("1.1.1.1", 1'000'000, 45'000));
  ASSERT_TRUE(eventually([&] { return server->held_body_bytes() == 45'000; }));
  const std::string small = post_of("1.1.1.1", 20'000, 20'000);
  EXPECT_EQ(status_of(server->port(), small), "HTTP/1.1 503");
  unfinished.close();
  EXPECT_TRUE(eventually([&] { return status_of(server->port(), small) == "HTTP/1.1 200"; }));
}

TEST(HttpLimits, EmptyLinesBetweenRequestsAreSkipped) {
  const auto server = serve(echo);
  RawSocket client(server->port());
  for (int i = 0; i < 2; i++) {
    client.send(kPost + "Content-Length: 2\r\n\r\nab\r\n");
    EXPECT_EQ(client.read_response().second, "POST /\nab");
  }
}

TEST(HttpLimits, EmptyLinesAloneAreNoRequestThatIsLate) {
  HttpServerOptions options;
  options.head_timeout = std::chrono::milliseconds(100);
  const auto server = serve(echo, options);
  RawSocket client(server->port());
  client.send("\r\n\r\n");
  EXPECT_EQ(client.read_to_end(), "");
}

// Counts what is logged while it lives.
class LoggedLines {
 public:
  LoggedLines() : sink_(std::make_shared<Sink>()) { spdlog::default_logger()->sinks().push_back(sink_); }
  ~LoggedLines() { spdlog::default_logger()->sinks().pop_back(); }
  int with(std::string_view text) {
    std::lock_guard lock(sink_->mutex);
    return static_cast<int>(
        std::count_if(sink_->lines.begin(), sink_->lines.end(),
                      [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

 private:
  struct Sink : spdlog::sinks::sink {
    void log(const spdlog::details::log_msg& message) override {
      std::lock_guard lock(mutex);
      lines.emplace_back(message.payload.begin(), message.payload.end());
    }
    void flush() override {}
    void set_pattern(const std::string&) override {}
    void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  const std::shared_ptr<Sink> sink_;
};

TEST(HttpLimits, RunningOutOfDescriptorsIsLoggedOnceAndPasses) {
  LoggedLines logged;
  const auto server = serve(echo);
  RawSocket client(server->port());  // accepted or not, its own descriptor is there
  ASSERT_TRUE(eventually([&] { return server->connections() == 1; }));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int next = ::dup(0);
  const rlimit narrow{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &narrow), 0);
  ::close(next);
  RawSocket waiting(server->port());  // takes the last one
  EXPECT_TRUE(eventually([&] { return logged.with("cannot accept") > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // several attempts more
  EXPECT_EQ(logged.with("cannot accept"), 1);
  ::setrlimit(RLIMIT_NOFILE, &before);
  waiting.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(waiting.read_until("\r\n"), StartsWith("HTTP/1.1 200"));
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
