// The load client against our own listener.
#include "load/load_run.h"

#include <gmock/gmock.h>

#include "net/server_fixture.h"

namespace fulmar::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr std::string_view kEvent = "data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":\"length\"}]}\n\n";

// As many events as the request's body says.
void stream(const std::shared_ptr<Exchange>& exchange) {
  const int events = std::stoi(exchange->request().body);
  if (events < 0) return exchange->respond({.status = 503, .body = "{\"error\":\"full\"}"});
  exchange->begin_stream(stream_head());
  for (int i = 0; i < events; i++) exchange->write(std::string(kEvent));
  exchange->write("data: [DONE]\n\n");
  exchange->end();
}

TEST(LoadRun, RecordsEveryAnswerInOrder) {
  const auto server = serve(stream);
  LoadTarget target{.port = server->port()};
  std::vector<LoadRequest> requests;
  for (int i = 0; i < 40; i++) requests.push_back({.at = 0.001 * i, .body = std::to_string(i)});
  size_t told = 0;
  const auto records = run_load(target, std::move(requests), [&](size_t ended) { told = ended; });
  ASSERT_THAT(records, SizeIs(40));
  EXPECT_EQ(told, 40u);
  for (size_t i = 0; i < records.size(); i++) {
    EXPECT_TRUE(records[i].succeeded()) << records[i].fault;
    EXPECT_THAT(records[i].text_at, SizeIs(i));
    EXPECT_GE(records[i].sent_at, 0.001 * static_cast<double>(i));
  }
}

TEST(LoadRun, AFailureIsARecord) {
  const auto server = serve(stream);
  const auto records = run_load({.port = server->port()}, {{.body = "-1"}, {.body = "2"}});
  EXPECT_EQ(records[0].fault, "HTTP 503 {\"error\":\"full\"}");
  EXPECT_TRUE(records[1].succeeded());
}

TEST(LoadRun, NobodyListeningIsARecord) {
  uint16_t port = 0;
  { port = serve(stream)->port(); }
  const auto records = run_load({.port = port}, {{.body = "1"}});
  EXPECT_THAT(records[0].fault, HasSubstr("cannot connect"));
}

TEST(LoadRun, TakesTheTargetFromAUrl) {
  const auto plain = load_target("http://127.0.0.1:8001/");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->path, "/v1/completions");
  EXPECT_EQ(plain->port, 8001);
  EXPECT_EQ(load_target("http://a:1/x")->path, "/x");
  EXPECT_FALSE(load_target("ftp://a").ok());
}

}  // namespace
}  // namespace fulmar::test
