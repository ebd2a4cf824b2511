// The life of workers: started, watched, crashed, restarted, stopped, drained; with real processes.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <array>
#include <future>

#include "base/exit_codes.h"
#include "control/config_file.h"
#include "control/control_rig.h"

namespace fulmar::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

using Workers = ControlRig;

TEST_F(Workers, StartReturnsTheWholeWorkerObject) {
  begin();
  const HttpResponse response =
      ask("POST", "/api/workers/start", R"({"model_path":")" + model("m.slow.pth") + R"(","gpu_id":0})");
  ASSERT_EQ(response.status, 200) << response.body;
  const auto worker = *parse_json(response.body);
  EXPECT_THAT(worker.find("worker_id")->as_string(), MatchesRegex("wkr-[0-9a-f]{10}"));
  EXPECT_EQ(worker.find("status")->as_string(), "running");
  EXPECT_FALSE(worker.find("ready")->as_bool());
  EXPECT_TRUE(worker.find("exited_at")->is_null());
  EXPECT_TRUE(worker.find("exit_code")->is_null());
  EXPECT_THAT(worker.find("endpoint")->as_string(), MatchesRegex("http://127.0.0.1:[0-9]+"));
  EXPECT_EQ(worker.find("spec")->find("gpu_id")->as_int64(), 0);
  const std::string id = worker.find("worker_id")->as_string();
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/proxy/v1/completions", "{}").body,
            R"({"detail":"proxy not ready"})");
  EXPECT_TRUE(eventually([&] { return this->worker(id)->answers(); }));
  EXPECT_TRUE(ask_json("/api/workers/" + id).find("ready")->as_bool());
  EXPECT_EQ(ask_json("/api/workers").as_array().size(), 1u);
  EXPECT_TRUE(logged(id, "CUDA_VISIBLE_DEVICES=0"));
}

TEST_F(Workers, BadFieldsAreRefusedByName) {
  begin();
  const HttpResponse response = ask("POST", "/api/workers/start", R"({"port":70000})");
  EXPECT_EQ(response.status, 422);
  EXPECT_THAT(response.body, HasSubstr(R"({"loc":["body","port"],)"));
  EXPECT_THAT(response.body, HasSubstr(R"("loc":["body","model_path"])"));
  EXPECT_EQ(ask("POST", "/api/workers/start", "{").status, 400);
  EXPECT_TRUE(ask_json("/api/workers").as_array().empty());
  const std::string id = start("m.pth");
  const std::string port = std::to_string(worker(id)->spec.port);
  EXPECT_EQ(
      ask("POST", "/api/workers/start", R"({"model_path":")" + model("n.pth") + R"(","port":)" + port + "}")
          .status,
      422);
}

TEST_F(Workers, WhatNoFieldKeepsIsRefusedByName) {
  begin();
  for (const char* more :
       {R"("slots":-1)", R"("vocab":"/etc/passwd")", R"("args":["--slots","3"])", R"("Port":1)", R"("":null)",
        R"("use_cuda_graph":"perhaps")", R"("max_prefill_batch":0)"}) {
    const std::string body = R"({"model_path":")" + model("m.pth") + "\"," + more + "}";
    const HttpResponse response = ask("POST", "/api/workers/start", body);
    EXPECT_EQ(response.status, 422) << more;
    const std::string name(more, std::string_view(more).find(':'));
    EXPECT_THAT(response.body, HasSubstr(R"({"loc":["body",)" + name + "]")) << more;
  }
  EXPECT_TRUE(ask_json("/api/workers").as_array().empty());
}

TEST_F(Workers, FiguresAreAskedForWithNumbers) {
  begin();
  for (const char* path : {"/api/events", "/api/history"}) {
    for (const char* since : {"x", "nan", "inf", "1e999", "", "1,5"}) {
      const HttpResponse response = ask("GET", std::string(path) + "?since=" + since);
      EXPECT_EQ(response.status, 422) << path << since;
      EXPECT_THAT(response.body, HasSubstr("since: is '")) << path << since;
    }
    for (const char* since : {"0", "1785945600.5", "-1"}) {
      EXPECT_EQ(ask("GET", std::string(path) + "?since=" + since).status, 200) << path << since;
    }
  }
  EXPECT_EQ(ask("GET", "/api/history?step=foo").status, 422);
  EXPECT_EQ(ask("GET", "/api/history?step=minute").status, 200);
}

TEST_F(Workers, AProgramThatCannotRunIsAnAnswer) {
  options_.supervisor.program = "/nonexistent/fulmar";
  begin();
  const HttpResponse response =
      ask("POST", "/api/workers/start", R"({"model_path":")" + model("m.pth") + "\"}");
  EXPECT_EQ(response.status, 500);
  EXPECT_THAT(response.body, HasSubstr("/nonexistent/fulmar"));
}

TEST_F(Workers, AHostElsewhereIsRefused) {
  begin();
  for (const std::string host : {"203.0.113.1", "no-such-host.invalid"}) {
    const HttpResponse response =
        ask("POST", "/api/workers/start",
            R"({"model_path":")" + model("m.pth") + R"(","port":9,"host":")" + host + "\"}");
    EXPECT_EQ(response.status, 422) << response.body;
    EXPECT_THAT(response.body, HasSubstr(R"("loc":["body","host"])"));
    EXPECT_THAT(response.body, HasSubstr(host));
  }
  EXPECT_TRUE(ask_json("/api/workers").as_array().empty());
}

TEST_F(Workers, WhoeverCannotProveItselfIsToldNoSecret) {
  options_.password = options_.supervisor.password = "the password";
  begin();
  Headers key;
  key.add("X-Api-Key", "the password");
  const HttpResponse response =
      ask("POST", "/api/workers/start", R"({"model_path":")" + model("m.impostor.pth") + "\"}", key);
  const std::string id = parse_json(response.body)->find("worker_id")->as_string();
  ASSERT_TRUE(eventually([&] { return logged(id, "was told"); }));
  ASSERT_TRUE(eventually([&] { return worker(id)->log->tail(5000).size() > 5; })) << "several probes";
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})", key).status, 503) << "no worker is ready";
  EXPECT_EQ(ask("GET", "/api/workers/" + id + "/proxy/echo", {}, key).status, 503);
  EXPECT_FALSE(logged(id, "password"));
  EXPECT_TRUE(logged(id, "was told ''"));
}

TEST_F(Workers, ADeviceErrorIsFollowedByARestartUnderEveryPolicy) {
  begin();
  const std::string id = start_ready("m.device.pth", R"(,"restart":"off")");
  std::ignore =
      fetch("GET", url("/api/workers/" + id + "/proxy/crash"));  // the worker ends before it answers
  EXPECT_TRUE(
      eventually([&] { return worker(id)->restarts == 1 && worker(id)->phase == WorkerPhase::ready; }));
  EXPECT_EQ(worker(id)->crash->code, kDeviceErrorExit);
}

TEST_F(Workers, UnknownIdsAreNotFound) {
  begin();
  for (const auto& [method, rest] : {std::pair{"GET", ""},
                                     {"GET", "/logs"},
                                     {"POST", "/stop"},
                                     {"POST", "/drain"},
                                     {"POST", "/restart"},
                                     {"DELETE", ""},
                                     {"GET", "/proxy/health"}}) {
    const HttpResponse response = ask(method, std::string("/api/workers/wkr-0000000000") + rest);
    EXPECT_EQ(response.status, 404) << rest;
    EXPECT_EQ(response.body, R"({"detail":"worker not found"})") << rest;
  }
}

TEST_F(Workers, StopEndsTheProcessAndCanBeRepeated) {
  begin();
  const std::string id = start_ready("m.pth");
  const pid_t pid = worker(id)->pid;
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = ask("POST", "/api/workers/" + id + "/stop");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, R"({"status":"ok"})");
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  const JsonValue object = ask_json("/api/workers/" + id);
  EXPECT_EQ(object.find("status")->as_string(), "exited");
  EXPECT_EQ(object.find("exit_code")->as_int64(), 0);
  EXPECT_FALSE(object.find("exited_at")->is_null());
  EXPECT_TRUE(object.find("crash")->is_null());
  const HttpResponse proxied = ask("GET", "/api/workers/" + id + "/proxy/health");
  EXPECT_EQ(proxied.status, 502);
  EXPECT_EQ(proxied.body, R"({"detail":"worker unreachable"})");
  EXPECT_THAT(ask("GET", "/api/workers/" + id + "/logs").body, HasSubstr("fake worker for"));
}

TEST_F(Workers, OneThatIgnoresTheSignalIsKilled) {
  begin();
  const std::string id = start_ready("m.deaf.pth");
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/stop").status, 200);
  EXPECT_EQ(ask_json("/api/workers/" + id).find("exit_code")->as_int64(), -SIGKILL);
}

TEST_F(Workers, ACrashKeepsItsReasonAndLastLines) {
  begin();
  const std::string id = start("m.crash.pth");
  ASSERT_TRUE(eventually([&] { return worker(id)->phase == WorkerPhase::exited; }));
  const JsonValue object = ask_json("/api/workers/" + id);
  EXPECT_EQ(object.find("exit_code")->as_int64(), 3);
  EXPECT_EQ(object.find("crash")->find("reason")->as_string(), "exit code 3");
  EXPECT_EQ(object.find("crash")->find("lines")->as_array().back().as_string(), "no such luck");
  EXPECT_EQ(object.find("restarts")->as_int64(), 0);
}

TEST_F(Workers, LogsCanBeCut) {
  begin();
  const std::string id = start_ready("m.pth");
  const std::string logs = "/api/workers/" + id + "/logs";
  EXPECT_EQ(ask("GET", logs + "?tail=0").body, R"({"worker_id":")" + id + R"(","lines":[]})");
  EXPECT_EQ(ask_json(logs + "?tail=1").find("lines")->as_array().size(), 1u);
  EXPECT_EQ(ask("GET", logs + "?tail=x").status, 422);
}

TEST_F(Workers, PolicyRestartsAfterACrashWithTheSamePort) {
  begin();
  const std::string id = start_ready("m.pth", R"(,"restart":"on-failure")");
  const WorkerPtr before = worker(id);
  ::kill(before->pid, SIGKILL);
  ASSERT_TRUE(
      eventually([&] { return worker(id)->restarts == 1 && worker(id)->phase == WorkerPhase::ready; }));
  EXPECT_NE(worker(id)->pid, before->pid);
  EXPECT_EQ(worker(id)->spec.port, before->spec.port);
  EXPECT_EQ(worker(id)->crash->signal, SIGKILL);
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/stop").status, 200);
  EXPECT_EQ(worker(id)->phase, WorkerPhase::exited);
}

TEST_F(Workers, AStopIsAnsweredOnceTheEndCanBeSeen) {
  begin();
  const std::string id = start_ready("m.pth");
  Supervisor& supervisor = server_->supervisor();
  std::promise<WorkerPhase> seen;
  ASSERT_TRUE(supervisor.stop(id, [&] { seen.set_value(find_worker(*supervisor.fleet(), id)->phase); }).ok());
  EXPECT_EQ(seen.get_future().get(), WorkerPhase::exited);
}

TEST_F(Workers, StoppingEndsTheBackOff) {
  begin();
  const std::string id = start("m.crash.pth", R"(,"restart":"always")");
  ASSERT_TRUE(eventually([&] { return worker(id)->restarts >= 2; }));
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/stop").status, 200);
  const int restarts = worker(id)->restarts;
  std::this_thread::sleep_for(std::chrono::milliseconds(400));  // longer than the longest back-off
  EXPECT_EQ(worker(id)->restarts, restarts);
}

TEST_F(Workers, NothingOutsideTheModelsFolderIsStarted) {
  options_.models_dir = (folder_ / "models").string();
  std::filesystem::create_directories(options_.models_dir);
  std::ofstream(options_.models_dir + "/in.pth") << "x";
  begin();
  EXPECT_EQ(ask("POST", "/api/workers/start", R"({"model_path":")" + model("out.pth") + "\"}").status, 422);
  EXPECT_EQ(ask("POST", "/api/workers/start", R"({"model_path":"in"})").status, 200);
  EXPECT_THAT(ask("GET", "/api/models").body, HasSubstr(R"({"path":"in.pth","bytes":1})"));
}

TEST_F(Workers, ConfigurationIsFollowed) {
  begin();
  const std::string path = model("m.pth");
  const auto apply = [&](const std::string& yaml) {
    auto specs = parse_config(yaml, {});
    ASSERT_TRUE(specs.ok()) << specs.error().text;
    server_->supervisor().reconcile(std::move(*specs));
  };
  const auto alive = [&](const std::string& name) {
    int count = 0;
    const FleetPtr fleet = server_->supervisor().fleet();
    for (const WorkerPtr& worker : *fleet) count += worker->spec.name == name && worker->alive();
    return count;
  };
  const std::string by_hand = start_ready("hand.pth");
  const int port = 1 + static_cast<int>(worker(by_hand)->spec.port) % 60000;
  const std::string fixed = ", port: " + std::to_string(port);
  apply("workers:\n  - {name: a, model_path: " + path + "}\n  - {name: b, model_path: " + path + fixed + "}");
  ASSERT_TRUE(eventually([&] { return alive("a") == 1 && alive("b") == 1; }));
  apply("workers:\n  - {name: b, max_batch_size: 3, model_path: " + path + fixed + "}");
  EXPECT_TRUE(eventually([&] {
    const FleetPtr fleet = server_->supervisor().fleet();
    for (const WorkerPtr& worker : *fleet) {
      if (worker->spec.name == "b" && worker->alive() && worker->spec.max_batch_size == 3)
        return alive("a") == 0;
    }
    return false;
  })) << "b is replaced on its own port, a is gone";
  EXPECT_TRUE(worker(by_hand)->alive());
}

TEST_F(Workers, DrainingWaitsForWhatRuns) {
  begin();
  const std::string id = start_ready("m.pth");
  std::string text;
  std::thread client([&] {
    text =
        ask("POST", "/v1/completions", R"({"prompt":"x","max_tokens":60,"pace_ms":10,"stream":true})").body;
  });
  ASSERT_TRUE(eventually([&] { return worker(id)->in_flight->load() == 1; }));
  for (const std::string verb : {"/drain", "/restart", "/stop"}) {
    const auto refused = ask("POST", "/api/workers/" + id + verb, R"({"deadlin":5})");
    EXPECT_EQ(refused.status, 422) << verb;
    EXPECT_THAT(refused.body, testing::HasSubstr("deadlin: is no field of this route")) << verb;
    EXPECT_EQ(ask("POST", "/api/workers/" + id + verb + "?deadline=5").status, 422) << verb;
  }
  EXPECT_EQ(ask("POST", "/api/workers/restart", R"({"deadline":5,"deadline":6})").status, 400);
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/drain").body, R"({"status":"draining"})");
  ASSERT_TRUE(eventually([&] { return worker(id)->phase == WorkerPhase::draining; }));
  EXPECT_EQ(ask("POST", "/v1/completions", R"({"prompt":"x"})").status, 503);
  client.join();
  EXPECT_THAT(text, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_TRUE(eventually([&] { return worker(id)->phase == WorkerPhase::exited; }));
  EXPECT_TRUE(worker(id)->crash == std::nullopt);
}

TEST_F(Workers, FiguresReachHistoryAndMetrics) {
  begin();
  const std::string id = start_ready("m.pth");
  EXPECT_TRUE(eventually([&] { return ask("GET", "/api/history").body.find(id) != std::string::npos; }));
  const std::string text = ask("GET", "/metrics").body;
  EXPECT_THAT(text, HasSubstr("fulmar_decode_tokens_per_second{worker=\"" + id + "\"} 0"));
  EXPECT_THAT(text, HasSubstr("fulmar_worker_up{worker=\"" + id + "\"} 1"));
  EXPECT_GT(worker(id)->memory_bytes, 0u);
}

// "started ready crashed ...": what happened to a worker.
std::string told(const JsonValue& answer, const std::string& id) {
  std::string kinds;
  for (const JsonValue& event : answer.find("events")->as_array()) {
    if (event.find("worker_id")->as_string() == id) kinds += event.find("kind")->as_string() + " ";
  }
  return kinds;
}

TEST_F(Workers, EventsTellOfACrashAndWhatFollowed) {
  begin();
  const std::string id = start_ready("m.pth", R"(,"restart":"on-failure","name":"mine")");
  ask("POST", "/api/workers/" + id + "/proxy/crash");
  EXPECT_TRUE(eventually([&] { return worker(id)->restarts == 1 && worker(id)->answers(); }));
  const JsonValue answer = ask_json("/api/events");
  EXPECT_EQ(told(answer, id), "started ready crashed started ready ");
  const JsonValue& crash = answer.find("events")->as_array()[2];
  EXPECT_THAT(crash.find("text")->as_string(), HasSubstr("signal"));
  EXPECT_FALSE(crash.find("lines")->as_array().empty());
  EXPECT_EQ(crash.find("name")->as_string(), "mine");
}

TEST_F(Workers, ARestartIsAnotherRunAndNoCrash) {
  begin();
  const std::string id = start_ready("m.pth");
  const pid_t before = worker(id)->pid;
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/restart").body, R"({"status":"restarting"})");
  EXPECT_TRUE(eventually([&] { return worker(id)->pid != before && worker(id)->answers(); }));
  EXPECT_FALSE(worker(id)->crash.has_value());
  ask("POST", "/api/workers/" + id + "/stop");
  EXPECT_EQ(worker(id)->phase, WorkerPhase::exited);
  EXPECT_EQ(ask("POST", "/api/workers/" + id + "/restart").status, 200);
  EXPECT_TRUE(eventually([&] { return worker(id)->answers(); })) << "one that was stopped starts again";
  EXPECT_EQ(told(ask_json("/api/events"), id),
            "started ready restarting stopped started ready stopped restarting started ready ");
}

TEST_F(Workers, AStoppedWorkerWhosePortIsTakenStaysStopped) {
  begin();
  const std::string id = start_ready("m.pth");
  const std::string port = std::to_string(worker(id)->spec.port);
  ask("POST", "/api/workers/" + id + "/stop");
  start_ready("n.pth", ",\"port\":" + port);
  const HttpResponse refused = ask("POST", "/api/workers/" + id + "/restart");
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("port: " + port + " is taken by worker"));
  EXPECT_EQ(worker(id)->phase, WorkerPhase::exited);
}

TEST_F(Workers, OnlyAnEndedWorkerCanBeRemoved) {
  begin();
  const std::string id = start_ready("m.pth");
  const HttpResponse refused = ask("DELETE", "/api/workers/" + id);
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("is ready, wanted one that has ended"));
  ask("POST", "/api/workers/" + id + "/stop");
  EXPECT_EQ(ask("DELETE", "/api/workers/" + id).body, R"({"status":"removed"})");
  EXPECT_EQ(ask("GET", "/api/workers/" + id).status, 404);
  EXPECT_TRUE(ask_json("/api/workers").as_array().empty());
}

TEST_F(Workers, ARollingRestartTakesOneAfterTheOther) {
  begin();
  const std::string first = start_ready("m.pth"), second = start_ready("n.pth");
  EXPECT_EQ(ask("POST", "/api/workers/restart").status, 200);
  EXPECT_TRUE(eventually([&] { return worker(first)->restarts == 1 && worker(second)->restarts == 1; }));
  EXPECT_TRUE(eventually([&] { return worker(second)->answers(); }));
  const JsonValue answer = ask_json("/api/events");  // the loop below refers into it
  std::string order;
  for (const JsonValue& event : answer.find("events")->as_array()) {
    const std::string id = event.find("worker_id")->as_string();
    if (!id.empty()) order += (id == first ? "1" : "2") + event.find("kind")->as_string() + " ";
  }
  EXPECT_THAT(order, HasSubstr("1restarting 1stopped 1started 1ready 2restarting 2stopped 2started 2ready"));
}

TEST_F(Workers, ANameIsOneWorkers) {
  begin();
  const std::string id = start_ready("m.pth", R"(,"name":"chat")");
  EXPECT_EQ(ask_json("/api/workers/" + id).find("name")->as_string(), "chat");
  EXPECT_TRUE(
      eventually([&] { return ask("GET", "/api/history").body.find(R"("chat":{)") != std::string::npos; }));
  const HttpResponse refused =
      ask("POST", "/api/workers/start", R"({"model_path":")" + model("n.pth") + R"(","name":"chat"})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_THAT(refused.body, HasSubstr(R"("loc":["body","name"])"));
  server_->supervisor().reconcile({});
  EXPECT_TRUE(worker(id)->answers()) << "no configuration describes it, so none ends it";
}

// The control plane's process is killed; nobody tells the worker.
TEST_F(Workers, NoWorkerOutlivesAKilledControlPlane) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us, so that their end can be seen
  const std::string path = model("m.pth");
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t control = ::fork();
  if (control == 0) {
    auto server = ControlServer::start(options_);
    if (!server.ok()) ::_exit(1);
    (*server)->supervisor().start({.model_path = path}, [&](Result<WorkerPtr> started) {
      const pid_t pid = started.ok() ? (*started)->pid : -1;
      [[maybe_unused]] const ssize_t written = ::write(ends[1], &pid, sizeof pid);
    });
    for (;;) ::pause();
  }
  pid_t orphan = -1;
  ASSERT_EQ(::read(ends[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  ASSERT_GT(orphan, 0);
  ::kill(control, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(control, &status, 0), control);
  ASSERT_TRUE(eventually([&] { return ::waitpid(orphan, &status, WNOHANG) == orphan; }));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace fulmar::test
