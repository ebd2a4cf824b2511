// The client against our own server and against answers written by hand.
#include "net/http_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>

#include "base/mailbox.h"
#include "net/server_fixture.h"
#include "net/sse.h"

namespace fulmar::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string url_of(uint16_t port, std::string_view path) {
  return fmt::format("http://127.0.0.1:{}{}", port, path);
}

ClientRequest request_to(uint16_t port, std::string target = "/") {
  ClientRequest request;
  request.host = "127.0.0.1";
  request.port = port;
  request.target = std::move(target);
  return request;
}

// One request with everything that came back; declared before the client that fills it. `status` and `pieces`
// may be read after wait().
class Recorded {
 public:
  ClientCallbacks callbacks() {
    return {.on_head = [this](int received, const Headers&) { status = received; },
            .on_data = [this](std::string_view bytes) { pieces.emplace_back(bytes); },
            .on_end = [this](Status outcome) { outcome_.put(std::move(outcome)); }};
  }
  bool ended() const { return outcome_.size() > 0; }
  // The outcome; an internal error when none comes.
  Status wait() {
    auto outcome = outcome_.wait_all(kPatience);
    return outcome.empty() ? Status(Error{ErrorKind::internal, "never ended"}) : std::move(outcome.front());
  }
  std::string body() const {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    return all;
  }

  int status = 0;
  std::vector<std::string> pieces;

 private:
  Mailbox<Status> outcome_;
};

TEST(Fetch, SendsAndReceives) {
  const auto server = serve(echo);
  Headers headers;
  headers.add("X-Any", "thing");
  const auto answer = fetch("POST", url_of(server->port(), "/p?q=1"), headers, "body");
  ASSERT_TRUE(answer.ok()) << answer.error().text;
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->content_type, "text/plain");
  EXPECT_EQ(answer->body, "POST /p\nbody");
}

TEST(HttpClient, SaysWhetherTheRequestWasSentAndWhetherTimeWasUp) {
  const auto outcome_of = [](ClientRequest request) {
    Mailbox<ClientOutcome> outcomes;
    HttpClient client;
    client.send(std::move(request), {.on_end = [&](const ClientOutcome& outcome) { outcomes.put(outcome); }});
    const auto found = outcomes.wait_all(kPatience);
    return found.empty() ? ClientOutcome{} : found.front();
  };
  uint16_t closed = 0;
  { closed = RawListener().port(); }
  const ClientOutcome refused = outcome_of(request_to(closed));
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(refused.sent);
  EXPECT_FALSE(refused.timed_out);

  RawListener listener;
  std::thread dying([&] { listener.accept().read_until("\r\n\r\n"); });
  const ClientOutcome lost = outcome_of(request_to(listener.port()));
  dying.join();
  EXPECT_FALSE(lost.ok());
  EXPECT_TRUE(lost.sent);
  EXPECT_FALSE(lost.timed_out);

  Shelf shelf;
  const auto server = serve(shelf.handler());
  ClientRequest slow = request_to(server->port());
  slow.total_timeout = std::chrono::seconds(1);  // enough for sending on a busy machine
  const ClientOutcome late = outcome_of(slow);
  EXPECT_FALSE(late.ok());
  EXPECT_TRUE(late.sent);
  EXPECT_TRUE(late.timed_out);
}

TEST(Fetch, HeadHasNoBody) {
  const auto server = serve(echo);
  const auto answer = fetch("HEAD", url_of(server->port(), "/p"));
  ASSERT_TRUE(answer.ok()) << answer.error().text;
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(answer->headers.get("content-length"), "8");
}

TEST(Fetch, ARefusedConnectionIsUnavailable) {
  uint16_t port = 0;
  { port = RawListener().port(); }
  const auto answer = fetch("GET", url_of(port, "/"));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(answer.error().text, StartsWith(fmt::format("127.0.0.1:{}: cannot connect", port)));
}

TEST(Fetch, ASilentServerRunsIntoTheTimeOut) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  const auto answer = fetch("GET", url_of(server->port(), "/"), {}, {}, std::chrono::milliseconds(100));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::unavailable);
  EXPECT_THAT(answer.error().text, HasSubstr("time is over"));
}

TEST(Fetch, BadUrlsAndHostsAreErrors) {
  EXPECT_EQ(fetch("GET", "https://127.0.0.1/").error().kind, ErrorKind::invalid);
  EXPECT_EQ(fetch("GET", "http://127.0.0.1/a b").error().kind, ErrorKind::invalid);
  EXPECT_EQ(fetch("GET", "http://no-such-host.invalid/").error().kind, ErrorKind::unavailable);
}

struct HandAnswer {
  const char* name;
  const char* bytes;
  const char* outcome;  // the body, or a part of the error's text after "!"
};

class HandAnswers : public testing::TestWithParam<HandAnswer> {};

TEST_P(HandAnswers, AreUnderstoodOrRefused) {
  RawListener listener;
  std::thread server([&] {
    RawSocket peer = listener.accept();
    peer.read_until("\r\n\r\n");
    peer.send(GetParam().bytes);
  });
  const auto answer = fetch("GET", url_of(listener.port(), "/"));
  server.join();
  const std::string wanted = GetParam().outcome;
  if (wanted.starts_with('!')) {
    ASSERT_FALSE(answer.ok());
    EXPECT_THAT(answer.error().text, HasSubstr(wanted.substr(1)));
  } else {
    ASSERT_TRUE(answer.ok()) << answer.error().text;
    EXPECT_EQ(answer->body, wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, HandAnswers,
    testing::Values(
        HandAnswer{"Length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok"},
        HandAnswer{"UntilClose", "HTTP/1.0 200 OK\r\n\r\nto the end", "to the end"},
        HandAnswer{"Chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
                   "a"},
        HandAnswer{"AfterContinue",
                   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x"},
        HandAnswer{"NoContent", "HTTP/1.1 204 No Content\r\n\r\n", ""},
        HandAnswer{"CutBody", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "!cut off"},
        HandAnswer{"CutChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "!cut off"},
        HandAnswer{"Nothing", "", "!no answer"}, HandAnswer{"Garbage", "what?\r\n\r\n", "!no answer"}),
    [](const auto& each) { return each.param.name; });

TEST(HttpClient, EventsArriveOneByOne) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  Recorded recorded;
  HttpClient client;
  client.send(request_to(server->port()), recorded.callbacks());
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  exchange->begin_stream(stream_head());
  for (const char* text : {"one", "two", "three"}) exchange->write(sse_event(text));
  exchange->write(std::string(kSseDone));
  exchange->end();
  ASSERT_TRUE(recorded.wait().ok());
  EXPECT_EQ(recorded.status, 200);
  EXPECT_THAT(recorded.pieces,
              ElementsAre("data: one\n\n", "data: two\n\n", "data: three\n\n", "data: [DONE]\n\n"));
}

TEST(HttpClient, AChunkThatComesInPiecesIsPassedOnWhole) {
  RawListener listener;
  Recorded recorded;
  HttpClient client;
  client.send(request_to(listener.port()), recorded.callbacks());
  RawSocket peer = listener.accept();
  peer.read_until("\r\n\r\n");
  for (const char c : std::string(
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n2\r\nxy\r\n0\r\n\r\n")) {
    peer.send(std::string(1, c));
  }
  ASSERT_TRUE(recorded.wait().ok());
  EXPECT_THAT(recorded.pieces, ElementsAre("0123456789", "xy"));
}

TEST(HttpClient, CancelReachesTheServerAndSilencesTheCall) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  HttpClient client;
  std::atomic<int> calls{0};
  const auto call = client.send(request_to(server->port()), {.on_data = [&](std::string_view) { calls += 1; },
                                                             .on_end = [&](Status) { calls += 100; }});
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  std::atomic<bool> gone{false};
  exchange->on_disconnect([&] { gone = true; });
  exchange->begin_stream(stream_head());
  exchange->write("data: 1\n\n");
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  call->cancel();
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
  call->cancel();
  EXPECT_EQ(calls, 1);
}

TEST(HttpClient, ReusesAConnection) {
  std::vector<std::string> addresses;
  const auto server = serve([&](const std::shared_ptr<Exchange>& exchange) {
    addresses.push_back(exchange->request().remote_address);
    echo(exchange);
  });
  std::vector<Recorded> recorded(3);
  HttpClient client;
  for (Recorded& each : recorded) {
    client.send(request_to(server->port()), each.callbacks());
    ASSERT_TRUE(each.wait().ok());
    ASSERT_TRUE(eventually([&] { return server->open_exchanges() == 0; }));
  }
  ASSERT_EQ(addresses.size(), 3u);
  EXPECT_EQ(addresses[0], addresses[2]);
}

TEST(HttpClient, DoesNotReuseAConnectionThatTheServerHasClosed) {
  std::vector<Recorded> recorded(2);
  HttpClient client;
  HttpServerOptions options;
  uint16_t port = 0;
  for (Recorded& each : recorded) {
    options.port = port;
    const auto server = serve(echo, options);
    ASSERT_TRUE(server);
    port = server->port();
    client.send(request_to(port), each.callbacks());
    EXPECT_TRUE(each.wait().ok());
  }
}

TEST(HttpClient, AThousandRequestsAtOnce) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::vector<Recorded> recorded(1000);
  HttpClient client;
  for (size_t i = 0; i < recorded.size(); i++) {
    client.send(request_to(server->port(), fmt::format("/{}", i)), recorded[i].callbacks());
  }
  std::vector<std::shared_ptr<Exchange>> exchanges;
  for (size_t i = 0; i < recorded.size(); i++) exchanges.push_back(shelf.take());
  for (const auto& exchange : exchanges) {
    ASSERT_TRUE(exchange);
    echo(exchange);
  }
  for (size_t i = 0; i < recorded.size(); i++) {
    ASSERT_TRUE(recorded[i].wait().ok());
    ASSERT_EQ(recorded[i].body(), fmt::format("GET /{}\n", i));
  }
}

TEST(HttpClient, PauseHoldsTheSenderBack) {
  const std::string large(32 << 20, 'b');
  const auto server =
      serve([&](const std::shared_ptr<Exchange>& exchange) { exchange->respond({.body = large}); });
  Recorded recorded;
  HttpClient client;
  ClientCallbacks callbacks = recorded.callbacks();
  std::atomic<ClientCall*> handle{nullptr};
  std::atomic<bool> paused{false};
  callbacks.on_head = [&](int, const Headers&) {
    while (!handle) std::this_thread::yield();
    handle.load()->pause();
    paused = true;
  };
  const auto call = client.send(request_to(server->port()), std::move(callbacks));
  handle = call.get();
  ASSERT_TRUE(eventually([&] { return paused.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(recorded.ended());
  EXPECT_EQ(server->open_exchanges(), 1u) << "32 MiB do not fit into what the system holds for two sockets";
  call->resume();
  ASSERT_TRUE(recorded.wait().ok());
  EXPECT_EQ(recorded.body().size(), large.size());
}

TEST(HttpClient, DestructionCancelsWhatRuns) {
  Shelf shelf;
  const auto server = serve(shelf.handler());
  std::atomic<int> ended{0};
  std::shared_ptr<ClientCall> call;
  std::shared_ptr<Exchange> exchange;
  {
    HttpClient client;
    call = client.send(request_to(server->port()), {.on_end = [&](Status) { ended++; }});
    exchange = shelf.take();
    ASSERT_TRUE(exchange);
  }
  EXPECT_TRUE(eventually([&] { return exchange->disconnected(); }));
  call->cancel();
  call->resume();
  EXPECT_EQ(ended, 0);
}

TEST(HttpClient, RelaysAStreamEventByEvent) {
  Shelf shelf;
  const auto worker = serve(shelf.handler());
  HttpClient client;
  const auto relay = serve([&](const std::shared_ptr<Exchange>& exchange) {
    const auto call = client.send(
        request_to(worker->port()),
        {.on_head = [exchange](int status, const Headers&) { exchange->begin_stream({.status = status}); },
         .on_data = [exchange](std::string_view bytes) { exchange->write(std::string(bytes)); },
         .on_end = [exchange](Status) { exchange->end(); }});
    exchange->on_disconnect([call] { call->cancel(); });
  });
  RawSocket reader(relay->port());
  reader.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto exchange = shelf.take();
  ASSERT_TRUE(exchange);
  exchange->begin_stream(stream_head());
  reader.read_until("\r\n\r\n");
  for (int i = 0; i < 20; i++) {
    exchange->write(sse_event(std::to_string(i)));
    ASSERT_EQ(reader.read_chunk(), sse_event(std::to_string(i)));
  }
  std::atomic<bool> gone{false};
  exchange->on_disconnect([&] { gone = true; });
  reader.close();
  EXPECT_TRUE(eventually([&] { return gone.load(); })) << "the reader's going travels upstream";
}

}  // namespace
}  // namespace fulmar::test
