// Status pages, steering of running requests, disconnects and the graceful stop.
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>

#include "server/core/metrics.h"
#include "server/models/engine_figures.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

// A stream that is read while it runs.
class OpenStream {
 public:
  OpenStream(const ServerRig& rig, const std::string& path, std::string body) {
    ClientRequest request;
    request.method = "POST";
    request.host = "127.0.0.1";
    request.port = rig.server->port();
    request.target = path;
    request.body = std::move(body);
    ClientCallbacks callbacks;
    callbacks.on_head = [this](int status, const Headers& headers) {
      std::lock_guard lock(mutex_);
      status_ = status;
      request_id_ = headers.get("X-Request-Id");
      changed_.notify_all();
    };
    callbacks.on_data = [this](std::string_view bytes) {
      std::lock_guard lock(mutex_);
      text_ += bytes;
      changed_.notify_all();
    };
    callbacks.on_end = [this](Status) {
      std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    };
    call_ = client_.send(std::move(request), std::move(callbacks));
  }

  // Waits for text in the stream; false after ten seconds.
  bool wait_for(const std::string& wanted) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10),
                             [&] { return text_.find(wanted) != std::string::npos; });
  }
  std::string wait_end() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return ended_; }));
    return text_;
  }
  std::string request_id() {
    std::lock_guard lock(mutex_);
    return request_id_;
  }
  void disconnect() { call_->cancel(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0;
  std::string request_id_, text_;
  bool ended_ = false;
  std::shared_ptr<ClientCall> call_;
  HttpClient client_;
};

constexpr const char* kChatStream = R"({"messages":[{"role":"user","content":"x"}],"stream":true})";
constexpr const char* kNativeStream = R"({"contents":["x"],"stream":true,"chunk_size":1})";

TEST(Control, CancelByIdEndsTheStreamNormally) {
  ServerRig rig;
  rig.engine.hold_after(2);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("llo"));
  const std::string id = stream.request_id();
  EXPECT_EQ(rig.send("DELETE", "/v1/requests/" + id).body,
            R"({"status":"cancelled","request_id":")" + id + "\"}");
  EXPECT_NE(events_of(stream.wait_end()).back().find(R"("finish_reason":"abort","stop_reason":"cancelled")"),
            std::string::npos);
  const Reply again = rig.send("DELETE", "/v1/requests/" + id);
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.body, R"({"detail":"Request not found"})");
}

TEST(Control, StopEverything) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/server/stop", "").body, R"({"ok":true,"stopped":false,"active_request":null})");
  rig.engine.hold_after(1);
  OpenStream stream(rig, "/v2/chat/completions", kNativeStream);
  ASSERT_TRUE(stream.wait_for("He"));
  EXPECT_TRUE(
      rig.post("/v1/server/stop", "{}")
          .body.starts_with(R"({"ok":true,"stopped":true,"active_request":{"id":")" + stream.request_id()));
  EXPECT_NE(events_of(stream.wait_end()).back().find(R"("delta":{"content":""},"finish_reason":"cancelled")"),
            std::string::npos);
}

TEST(Control, PauseAndResume) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/server/pause", "{}").body, R"({"ok":true,"paused":false,"active_request":null})");
  rig.engine.hold_after(2);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("llo"));
  const std::string id = stream.request_id();
  EXPECT_TRUE(
      rig.post("/v1/server/pause", "{}").body.starts_with(R"({"ok":true,"paused":true,"request_id":")" + id));
  events_of(stream.wait_end());
  EXPECT_NE(rig.get("/v1/server/status").body.find(R"("paused_requests":[{"id":")" + id), std::string::npos);
  rig.engine.hold_after(-1);
  const Reply rest = rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}");
  std::string text;
  for (const std::string& event : events_of(rest.body)) {
    text += parse_json(event)->find("choices")->as_array()[0].find("delta")->find("content")->as_string();
  }
  EXPECT_EQ(text, " world");
  EXPECT_EQ(rest.headers.get("X-Request-Id"), id);
  const Reply twice = rig.post("/v1/server/resume", R"({"session_id":")" + id + "\"}");
  EXPECT_EQ(twice.status, 404);
  EXPECT_EQ(twice.body, R"({"error":"Paused request not found"})");
  EXPECT_EQ(rig.post("/v1/server/resume", "{}").body, R"({"error":"Missing request_id"})");
}

TEST(Control, NothingIsSteeredByARequestThatIsNotUnderstood) {
  ServerRig rig;
  rig.engine.hold_after(1);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("He"));
  const std::string id = stream.request_id();
  for (const std::string path : {"/v1/server/stop", "/v1/server/pause"}) {
    for (const std::string body : {R"({"requst_id":"x"})", R"({"request_id":"x","id":"y"})", R"({"ID":7})",
                                   R"({"params":{"requst_id":"x"}})"}) {
      const Reply reply = rig.post(path, body);
      EXPECT_EQ(reply.status, 400) << path << body;
      EXPECT_NE(reply.body.find("it takes request_id"), std::string::npos) << reply.body;
    }
    EXPECT_EQ(rig.post(path + "?request_id=x", "").status, 400) << path;
  }
  EXPECT_NE(rig.get("/v1/server/status").body.find(id), std::string::npos) << "it goes on";
  rig.post("/v1/server/pause", R"({"request_id":")" + id + "\"}");
  stream.wait_end();
  const Reply other = rig.post("/v1/server/resume", R"({"session_id":"other","request_id":")" + id + "\"}");
  EXPECT_EQ(other.status, 400);
  EXPECT_NE(other.body.find("'session_id' is 'other', but the request '" + id + "' has no session"),
            std::string::npos)
      << other.body;
  rig.engine.hold_after(-1);
  EXPECT_EQ(rig.post("/v1/server/resume", R"({"request_id":")" + id + "\"}").status, 200);
}

TEST(Control, DisconnectCancels) {
  ServerRig rig;
  rig.engine.hold_after(2);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("llo"));
  stream.disconnect();
  EXPECT_TRUE(rig.engine.wait_idle());
  EXPECT_EQ(rig.engine.cancelled(), 1);
}

TEST(Control, CancelledWhileWaiting) {
  ServerRig rig;
  rig.engine.hold_after(0);
  for (const auto& [path, status] :
       {std::pair{"/v1/batch/completions", 409}, {"/v2/chat/completions", 200}}) {
    std::thread stopper([&] {
      while (rig.engine.cancel_all({}) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    const Reply reply = rig.post(path, R"({"contents":["x"]})");
    stopper.join();
    EXPECT_EQ(reply.status, status) << path;
    const std::string wanted =
        status == 409 ? R"({"error":"Request cancelled"})" : R"("finish_reason":"cancelled")";
    EXPECT_NE(reply.body.find(wanted), std::string::npos) << reply.body;
  }
}

TEST(Stop, FinishesWhatRunsAndRefusesTheRest) {
  ServerRig rig;
  rig.engine.hold_after(2);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("llo"));
  std::thread stopper([&] { EXPECT_TRUE(rig.server->stop(std::chrono::seconds(10))); });
  rig.engine.hold_after(-1);
  EXPECT_NE(stream.wait_end().find("[DONE]"), std::string::npos);
  stopper.join();
}

TEST(Stop, CancelsAfterTheGracePeriod) {
  ServerRig rig;
  rig.engine.hold_after(2);
  OpenStream stream(rig, "/v1/chat/completions", kChatStream);
  ASSERT_TRUE(stream.wait_for("llo"));
  EXPECT_FALSE(rig.server->stop(std::chrono::milliseconds(10)));
  events_of(stream.wait_end());
}

TEST(StatusPages, Shapes) {
  const ServerRig rig;
  EXPECT_TRUE(rig.get("/health").body.starts_with(
      R"({"status":"ok","queue":{"waiting":0,"prefill":0,"decode":0,"total_active":0,"available_slots":8,"stats":{)"));
  EXPECT_EQ(rig.get("/healthz").body, R"({"status":"ok","model":"tiny-rwkv7","runtime":"f32"})");
  EXPECT_EQ(rig.get("/healthcheck").body, R"({"message":"ok","status_code":200})");
  EXPECT_EQ(
      rig.get("/v1/queue/status").body,
      R"({"waiting":0,"prefill":0,"decode":0,"total_active":0,"available_slots":8,"stats":{"total_requests":0,"completed_requests":0,"rejected_requests":0,"cancelled_requests":0}})");
  EXPECT_NE(
      rig.get("/v1/stats").body.find(R"("status_counts":{"FREE":8,"PREFILL":0,"DECODE":0,"PENDING":0})"),
      std::string::npos);
  const std::string status = rig.get("/v1/server/status").body;
  EXPECT_TRUE(status.starts_with(R"({"status":"running",)")) << status;
  EXPECT_NE(
      status.find(
          R"("model":{"id":"tiny-rwkv7","name":"tiny-rwkv7","path":"/models/tiny-rwkv7.pth","loaded":true})"),
      std::string::npos);
  EXPECT_NE(
      status.find(R"("active_request":null,"active_requests":[],"last_request":null,"paused_requests":[]})"),
      std::string::npos);
  EXPECT_TRUE(rig.get("/slots").body.starts_with(R"([{"id":0,"state":"FREE","is_processing":false,)"));
  EXPECT_NE(rig.get("/props").body.find(R"("total_slots":8)"), std::string::npos);
}

TEST(StatusPages, Metrics) {
  const ServerRig rig;
  rig.post("/v1/completions", R"({"prompt":"x"})");
  rig.post("/v1/completions", R"({"prompt":7})");
  const Reply reply = rig.get("/metrics");
  EXPECT_TRUE(reply.headers.get("Content-Type").starts_with("text/plain; version=0.0.4"));
  for (const std::string line :
       {"fulmar_requests_total{outcome=\"ok\",route=\"/v1/completions\"} 1",
        "fulmar_requests_total{outcome=\"client_error\",route=\"/v1/completions\"} 1", "fulmar_slots 8",
        "fulmar_requests_waiting 0", "fulmar_ttft_seconds_count 1", "fulmar_itl_seconds_count 3",
        "fulmar_e2e_seconds_count 1", "fulmar_prompt_tokens_total 0", "fulmar_build_info{version="}) {
    EXPECT_NE(reply.body.find(line), std::string::npos) << line << " is missing in\n" << reply.body;
  }
}

// Whatever the page calls a total is kept of an engine that has ended; what is there while it runs is not.
TEST(StatusPages, TotalsAreWhatStaysOfAnEngine) {
  EngineStats stats;
  int64_t number = 1;
  for (int64_t EngineStats::*figure :
       {&EngineStats::prompt_tokens, &EngineStats::generated_tokens, &EngineStats::forwarded_tokens,
        &EngineStats::cached_tokens, &EngineStats::steps, &EngineStats::session_hits_device,
        &EngineStats::session_hits_host, &EngineStats::session_hits_store,
        &EngineStats::session_store_failures, &EngineStats::session_turns_unconfirmed,
        &EngineStats::slots_total, &EngineStats::slots_used, &EngineStats::rows_waiting,
        &EngineStats::rows_prefill, &EngineStats::rows_decode, &EngineStats::requests_waiting,
        &EngineStats::device_sessions, &EngineStats::host_sessions}) {
    stats.*figure = number++;
  }
  stats.prefixes = {.device_entries = 20, .host_entries = 21, .device_hits = 22, .host_hits = 23};
  const Metrics metrics;
  std::istringstream before(metrics.text(stats, {}, {}, {}, {}));
  const std::string after = "\n" + metrics.text(counters_of(stats), {}, {}, {}, {});
  int totals = 0;
  for (std::string line; std::getline(before, line);) {
    if (line.starts_with('#') || line.ends_with(" 0") || line.starts_with("fulmar_build_info") ||
        line.starts_with("fulmar_state_store_up")) {
      continue;  // not of an engine
    }
    const bool stays = after.find("\n" + line + "\n") != std::string::npos;
    EXPECT_EQ(stays, line.find("_total") != std::string::npos) << line;
    totals += stays ? 1 : 0;
  }
  EXPECT_EQ(totals, 12);
}

TEST(StatusPages, DeviceMemoryWhereADeviceAnswers) {
  ServerRig rig;
  EXPECT_EQ(rig.get("/metrics").body.find("gpu_memory"), std::string::npos);
  EXPECT_EQ(rig.get("/v1/stats").body.find("memory"), std::string::npos);
  auto facts = std::make_shared<ServedModel>(*rig.model);
  facts->device_memory = [] {
    return std::vector<DeviceMemory>{{"cuda:0", 6 << 20, 1 << 20, 10}, {"cuda:1", 2 << 20, 1 << 20, 22}};
  };
  rig.models.add(facts);
  const std::string metrics = rig.get("/metrics").body;
  for (const std::string line : {R"(memory_bytes{device="cuda:0",kind="total"} 6291456)",
                                 R"(memory_bytes{device="cuda:0",kind="used"} 5242880)",
                                 R"(memory_bytes{device="cuda:1",kind="free"} 1048576)",
                                 R"(layers{device="cuda:0"} 10)", R"(layers{device="cuda:1"} 22)"}) {
    EXPECT_NE(metrics.find("fulmar_gpu_" + line), std::string::npos) << line;
  }
  EXPECT_NE(rig.get("/v1/server/status").body.find(R"("free_vram_bytes":2097152,"total_vram_bytes":8388608)"),
            std::string::npos);
  EXPECT_NE(
      rig.get("/v1/stats")
          .body.find(
              R"("memory":{"total_mb":8,"allocated_mb":6,"reserved_mb":6,"free_mb":2,"utilization":0.75})"),
      std::string::npos);
}

TEST(Text, TokensBothWays) {
  const ServerRig rig;
  EXPECT_EQ(rig.post("/tokenize", R"({"content":"AB"})").body, R"({"tokens":[66,67]})");
  EXPECT_EQ(rig.post("/tokenize", R"({"content":"é","with_pieces":true,"add_special":true})").body,
            R"({"tokens":[{"id":0,"piece":""},{"id":196,"piece":[195]},{"id":170,"piece":[169]}]})");
  EXPECT_EQ(rig.post("/detokenize", R"({"tokens":[66,261,196]})").body, "{\"content\":\"A\\n\\n\uFFFD\"}");
  EXPECT_EQ(rig.post("/tokenize", "{}").body, R"({"error":"Missing content"})");
  EXPECT_EQ(rig.post("/detokenize", "{}").body, R"({"error":"Missing tokens"})");
  EXPECT_EQ(rig.post("/detokenize", R"({"tokens":[65536]})").status, 400);
  EXPECT_EQ(rig.post("/v1/tokens/count", R"({"text":"abc"})").body, R"({"tokens":3})");
  EXPECT_EQ(rig.post("/v1/tokens/count", R"({"contents":["ab","c"]})").body, R"({"tokens":3})");
  EXPECT_EQ(rig.post("/v1/tokens/count", R"({"messages":[{"role":"user","content":"hi"}]})").body,
            R"({"tokens":20})");
}

TEST(Page, ServedWithoutOutsideAssets) {
  const ServerRig rig;
  const Reply page = rig.get("/");
  EXPECT_EQ(page.headers.get("Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("assets/chat.js"), std::string::npos);
  EXPECT_EQ(page.body.find("https://"), std::string::npos);
  EXPECT_EQ(rig.get("/assets/chat.css").headers.get("Content-Type"), "text/css; charset=utf-8");
  EXPECT_NE(rig.get("/assets/chat.js").body.find("v1/chat/completions"), std::string::npos);
  EXPECT_EQ(rig.get("/assets/no-such-file").status, 404);
}

}  // namespace
}  // namespace fulmar::testing
