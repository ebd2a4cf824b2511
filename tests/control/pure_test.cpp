// The control plane's decisions, as pure functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/unix_time.h"
#include "control/config_file.h"
#include "control/control_auth.h"
#include "control/event_log.h"
#include "control/haproxy.h"
#include "control/history.h"
#include "control/log_ring.h"
#include "control/metrics_text.h"
#include "control/relay.h"
#include "control/restart.h"
#include "control/session_files.h"
#include "control/session_homes.h"
#include "net/json.h"

namespace fulmar {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

TEST(LogRing, CutsLinesAndForgetsTheOldest) {
  LogRing ring(3);
  ring.append("one\ntw");
  ring.append("o\r");
  ring.append("\nthree\n\nopen");
  EXPECT_THAT(ring.tail(9), ElementsAre("two", "three", ""));
  ring.close_line();
  EXPECT_THAT(ring.tail(2), ElementsAre("", "open"));
  EXPECT_THAT(ring.tail(0), IsEmpty());
  EXPECT_THAT(ring.tail(-1), IsEmpty());
}

TEST(LogRing, BreaksLinesWithoutEnd) {
  LogRing ring(10);
  ring.append(std::string(LogRing::kMostLineBytes + 1, 'x'));
  ring.close_line();
  EXPECT_EQ(ring.tail(10).size(), 2u);
}

TEST(Restart, FollowsThePolicy) {
  const BackOff back_off;
  const auto restarts = [&](RestartPolicy policy, bool failed, bool asked_for) {
    return decide_restart(policy, back_off, {.asked_for = asked_for, .failed = failed}).restart;
  };
  EXPECT_FALSE(restarts(RestartPolicy::off, true, false));
  EXPECT_TRUE(restarts(RestartPolicy::on_failure, true, false));
  EXPECT_FALSE(restarts(RestartPolicy::on_failure, false, false));
  EXPECT_TRUE(restarts(RestartPolicy::always, false, false));
  EXPECT_FALSE(restarts(RestartPolicy::always, true, true));
  EXPECT_TRUE(decide_restart(RestartPolicy::off, back_off, {.failed = true, .device_failed = true}).restart);
  EXPECT_FALSE(
      decide_restart(RestartPolicy::off, back_off, {.asked_for = true, .device_failed = true}).restart);
}

TEST(Restart, BacksOffUntilARunWasLong) {
  const BackOff back_off{
      .first = milliseconds(100), .most = milliseconds(500), .stable_after = milliseconds(1000)};
  EndedRun run{.failed = true, .lasted = milliseconds(10)};
  std::vector<int64_t> delays;
  for (int i = 0; i < 5; ++i) {
    const auto decision = decide_restart(RestartPolicy::always, back_off, run);
    delays.push_back(decision.delay.count());
    run.short_runs_before = decision.short_runs;
  }
  EXPECT_THAT(delays, ElementsAre(100, 200, 400, 500, 500));
  run.lasted = milliseconds(1000);
  EXPECT_EQ(decide_restart(RestartPolicy::always, back_off, run).delay.count(), 100);
}

class SpecTest : public testing::Test {
 protected:
  SpecTest() {
    root_ = fs::path(testing::TempDir()) / ("fulmar_spec_" + std::to_string(::getpid()));
    fs::create_directories(root_ / "models" / "sub");
    std::ofstream(root_ / "models" / "sub" / "m.pth") << "x";
    std::ofstream(root_ / "secret.pth") << "x";
    fs::create_symlink(root_ / "secret.pth", root_ / "models" / "link.pth");
  }
  ~SpecTest() override { fs::remove_all(root_); }

  ParsedSpec parse(const std::string& json, const std::string& models_dir = "") {
    return parse_worker_spec(*parse_json(json), {.models_dir = models_dir});
  }
  std::string models() const { return (root_ / "models").string(); }

  fs::path root_;
};

TEST_F(SpecTest, TakesDefaultsAndTheEndingMayBeMissing) {
  const auto parsed = parse(R"({"model_path":")" + models() + R"(/sub/m","gpu_id":null,"port":"8001"})");
  ASSERT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ(parsed.spec.port, 8001);
  EXPECT_EQ(parsed.spec.max_batch_size, 64);
  EXPECT_EQ(parsed.spec.host, "127.0.0.1");
  EXPECT_FALSE(parsed.spec.gpu_id.has_value());
  JsonWriter json;
  write_spec(json, parsed.spec);
  for (const char* key : {"model_path", "tokenizer_path", "host", "port", "gpu_id", "max_batch_size",
                          "max_prefill_batch", "max_queue_size", "prefill_chunk_size", "use_cuda_graph"}) {
    EXPECT_THAT(json.text(), HasSubstr("\"" + std::string(key) + "\":"));
  }
}

TEST_F(SpecTest, NamesEveryBadField) {
  const auto parsed = parse(R"({"port":0,"max_batch_size":5000,"gpu_id":-1,"use_cuda_graph":"perhaps"})");
  std::vector<std::string> fields;
  for (const auto& problem : parsed.problems) fields.push_back(problem.field);
  EXPECT_THAT(fields, testing::UnorderedElementsAre("port", "max_batch_size", "gpu_id", "use_cuda_graph",
                                                    "model_path"));
  const std::string body = problems_json(parsed.problems);
  EXPECT_THAT(body, HasSubstr(R"("loc":["body","port"])"));
  EXPECT_THAT(parse("[1]").problems, testing::SizeIs(1));
}

TEST_F(SpecTest, AGpuThatTheMachineDoesNotHaveIsRefused) {
  const auto refusal = [&](std::optional<std::vector<int64_t>> gpus) {
    const std::string body = R"({"gpu_id":99,"model_path":")" + models() + "/sub/m\"}";
    const auto parsed = parse_worker_spec(*parse_json(body), {.models_dir = {}, .gpus = std::move(gpus)});
    return parsed.problems.empty() ? std::string() : problems_json(parsed.problems);
  };
  EXPECT_THAT(refusal(std::vector<int64_t>{}), HasSubstr("gpu_id: is 99; this machine's GPUs are: none"));
  EXPECT_THAT(refusal(std::vector<int64_t>{0, 1}), HasSubstr("gpu_id: is 99; this machine's GPUs are: 0, 1"));
  EXPECT_EQ(refusal(std::vector<int64_t>{99}), "");
  EXPECT_EQ(refusal(std::nullopt), "") << "where nobody can say";
}

TEST_F(SpecTest, NothingOutsideTheModelsFolderIsFound) {
  EXPECT_TRUE(locate_model("sub/m.pth", models()).ok());
  EXPECT_TRUE(locate_model("sub/m", models()).ok());
  EXPECT_TRUE(locate_model(models() + "/sub/m.pth", models()).ok());
  for (const std::string& path :
       {std::string("../secret.pth"), std::string("link.pth"), (root_ / "secret.pth").string(),
        std::string("sub/../../secret"), std::string(""), std::string("/etc/passwd"), std::string("sub")}) {
    EXPECT_FALSE(locate_model(path, models()).ok()) << path;
  }
  EXPECT_TRUE(locate_model((root_ / "secret").string(), "").ok());
}

TEST_F(SpecTest, WorkersLoadNothingFromOutsideLaterEither) {
  const auto has_root = [](const ParsedSpec& parsed, const std::string& root) {
    const auto words = serve_arguments(parsed.spec, {"sessions.db", "states"}, 8);
    return std::find(words.begin(), words.end(), "--model-root=" + root) != words.end();
  };
  EXPECT_TRUE(has_root(parse(R"({"model_path":"sub/m"})", models()), models()));
  EXPECT_FALSE(has_root(parse(R"({"model_path":")" + models() + R"(/sub/m"})"), ""));
}

TEST_F(SpecTest, AStoreOfTheWorkersOwnTakesThePlaceOfTheFile) {
  const auto names_file = [](std::vector<std::string> arguments) {
    WorkerSpec spec;
    spec.extra_arguments = std::move(arguments);
    const auto words = serve_arguments(spec, {"sessions.db", "states"}, 8);
    return std::find(words.begin(), words.end(), "--state-db-path=sessions.db") != words.end();
  };
  EXPECT_TRUE(names_file({"--slots", "3"}));
  EXPECT_FALSE(names_file({"--state-store", "redis://127.0.0.1"}));
  EXPECT_FALSE(names_file({"--state-store=redis://127.0.0.1"}));
  const WorkerSpec inherits =
      parse_worker_spec(*parse_json("{}"), {.models_dir = {}, .shared_store = true}).spec;
  EXPECT_TRUE(shares_sessions(inherits));
  EXPECT_THAT(serve_arguments(inherits, {"sessions.db", "states"}, 8),
              testing::Not(testing::Contains("--state-db-path=sessions.db")));
}

TEST_F(SpecTest, ListsModelFiles) {
  const auto files = list_model_files(models());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].path, "sub/m.pth");
  EXPECT_THAT(list_model_files(""), IsEmpty());
  EXPECT_THAT(list_model_files(models() + "/none"), IsEmpty());
}

TEST_F(SpecTest, ReadsAConfiguration) {
  const auto specs = parse_config(
      "workers:\n  - name: a\n    model_path: sub/m\n    gpu_id: 1\n    args: [--slots, 3]\n"
      "  - name: b\n    model_path: sub/m.pth\n    restart: always\n",
      {.models_dir = models()});
  ASSERT_TRUE(specs.ok()) << specs.error().text;
  ASSERT_EQ(specs->size(), 2u);
  EXPECT_EQ((*specs)[0].gpu_id, 1);
  EXPECT_EQ((*specs)[0].restart, RestartPolicy::on_failure);
  EXPECT_THAT((*specs)[0].extra_arguments, ElementsAre("--slots", "3"));
  EXPECT_EQ((*specs)[1].restart, RestartPolicy::always);
}

TEST_F(SpecTest, SaysHowAModelIsSpreadOverDevices) {
  const auto json_of = [&](const std::string& args) {
    const auto specs = parse_config(
        "workers:\n  - name: a\n    model_path: sub/m\n    args: [" + args + "]\n", {.models_dir = models()});
    JsonWriter json;
    write_spec(json, specs->front());
    return json.take();
  };
  EXPECT_THAT(json_of("--slots, 3, --devices, '0,1', --tp=2, --password, secret"),
              HasSubstr(R"("spread":"--devices 0,1 --tp=2"})"));
  EXPECT_THAT(json_of("--slots, 3"), testing::Not(HasSubstr("spread")));
}

TEST_F(SpecTest, RefusesBadConfigurations) {
  for (const char* yaml :
       {"workers: 5", "other: []", "workers:\n  - model_path: sub/m", "workers:\n  - name: a", "workers: [",
        "workers:\n  - name: a\n    model_path: sub/m\n    prot: 5", "- 1", "workers:\n  - 5",
        "workers:\n  - {name: a, model_path: sub/m}\n  - {name: a, model_path: sub/m}",
        "workers:\n  - {name: a, model_path: sub/m, args: x}", "workers:\n  - {name: [a], model_path: sub/m}",
        "workers:\n  - {name: a, model_path: ../secret}", "workers:\n  - {[1]: a, model_path: sub/m}"}) {
    EXPECT_FALSE(parse_config(yaml, {.models_dir = models()}).ok()) << yaml;
  }
  EXPECT_TRUE(parse_config("", {})->empty());
}

TEST_F(SpecTest, WhatAConfigurationGivesTwiceIsRefusedWithBothLines) {
  const std::string worker = "workers:\n  - name: a\n    model_path: sub/m\n",
                    other = "    model_path: sub/m.pth\n";
  for (const auto& [yaml, told] :
       {std::pair{worker + worker, "'workers' is in line 1 and line 4"},
        {worker + other, "'model_path' is in line 3 and line 4"},
        {worker + "    args: []\n    'args': [x]\n", "'args' is in line 4 and line 5"},
        {worker + "---\n" + worker, "a second document begins in line 4"},
        {"---\n---\n" + worker, "a second document begins in line 2"},
        {worker + "]", "line 4: illegal flow end"}}) {
    const auto specs = parse_config(yaml, {.models_dir = models()});
    ASSERT_FALSE(specs.ok()) << yaml;
    EXPECT_THAT(specs.error().text, HasSubstr(told));
  }
}

std::string file_of(const std::string& name, int number = 1) {
  WorkerSpec spec;
  spec.name = name;
  return session_file_name(spec, number);
}

TEST(SessionFiles, EachNameHasOneOfItsOwn) {
  std::map<std::string, std::string> names;
  const std::string pieces[] = {"a",  "b",  " ", "/",  "_",    "%", "%20", "+",
                                "-2", "+2", ".", "\n", "\xff", "ä", "20",  ".responses"};
  for (const std::string& first : pieces) {
    for (const std::string& other : pieces) {
      for (const std::string& third : pieces) {
        const std::string name = first + other + third;
        for (int number = 1; number <= 3; ++number) {
          const std::string file = file_of(name, number);
          const std::string whose = name + " as worker " + std::to_string(number);
          for (const std::string& one : {file, fs::path(file).replace_extension(".responses.db").string()}) {
            const auto [known, fresh] = names.emplace(one, whose);
            EXPECT_TRUE(fresh || known->second == whose) << one << ": " << known->second << " and " << whose;
          }
          EXPECT_EQ(file.find_first_of("/ \n"), std::string::npos) << file;
        }
      }
    }
  }
}

TEST(SessionFiles, PlainNamesKeepTheirs) {
  for (const std::string name : {"a", "rwkv7-g1.5b_x", "gpu-0"}) {
    EXPECT_EQ(file_of(name), "sessions-" + name + ".db");
  }
  WorkerSpec unnamed;
  unnamed.model_path = "/srv/models/demo.pth";
  EXPECT_EQ(session_file_name(unnamed), "sessions-demo.db");
  EXPECT_EQ(session_file_name(unnamed, 2), "sessions-demo-2.db");
  unnamed.gpu_id = 1;
  EXPECT_EQ(session_file_name(unnamed), "sessions-demo-gpu1.db");
}

TEST(SessionFiles, OfAnOlderVersionAreTakenOver) {
  const fs::path folder = fs::path(testing::TempDir()) / ("fulmar_files_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  WorkerSpec spec;
  spec.name = "a b";
  const fs::path former = folder / former_session_file_name(spec), own = folder / session_file_name(spec);
  EXPECT_EQ(former.filename(), "sessions-a_b.db");
  EXPECT_FALSE(take_over_sessions(former, own));
  for (const char* ending : {".db", ".db-wal", ".responses.db"}) {
    std::ofstream(folder / (std::string("sessions-a_b") + ending)) << ending;
  }
  EXPECT_TRUE(take_over_sessions(former, own));
  for (const char* ending : {".db", ".db-wal", ".responses.db"}) {
    EXPECT_TRUE(fs::exists(folder / (std::string("sessions-a%20b") + ending))) << ending;
    EXPECT_FALSE(fs::exists(folder / (std::string("sessions-a_b") + ending))) << ending;
  }
  std::ofstream(former) << "of another";
  EXPECT_FALSE(take_over_sessions(former, own)) << "once";
  fs::remove_all(folder);
}

TEST(Metrics, MergeKeepsFamiliesTogether) {
  const std::string merged =
      merge_metrics({{"a", "# HELP x Help.\n# TYPE x counter\nx 1\n# TYPE y gauge\ny{k=\"}\\\"\"} 2 99\n"},
                     {"b", "# HELP x Help.\n# TYPE x counter\nx 3\nrubbish\n{} 1\n"}});
  EXPECT_EQ(merged,
            "# HELP x Help.\n# TYPE x counter\nx{worker=\"a\"} 1\nx{worker=\"b\"} 3\n"
            "# TYPE y gauge\ny{worker=\"a\",k=\"}\\\"\"} 2 99\n");
  EXPECT_EQ(metric_value(merged, "x"), 4.0);
  EXPECT_FALSE(metric_value(merged, "z").has_value());
}

TEST(Metrics, QuantilesOfWhatIsNew) {
  const std::string before = "t_bucket{le=\"1\"} 4\nt_bucket{le=\"2\"} 4\nt_bucket{le=\"+Inf\"} 4\n";
  const std::string now = "t_bucket{le=\"1\"} 4\nt_bucket{le=\"2\"} 8\nt_bucket{le=\"+Inf\"} 8\n";
  EXPECT_EQ(quantile_between(read_buckets(before, "t"), read_buckets(now, "t"), 0.5), 1.5);
  EXPECT_FALSE(quantile_between(read_buckets(now, "t"), read_buckets(now, "t"), 0.5).has_value());
  EXPECT_EQ(quantile_between(read_buckets(now, "t"), read_buckets(before, "t"), 0.5), 0.5)
      << "a restarted worker";
  EXPECT_FALSE(quantile_between({}, {}, 0.5).has_value());
}

TEST(Auth, TakesBearerBasicAndKey) {
  const auto passes = [](const char* name, const char* value) {
    Headers headers;
    headers.add(name, value);
    return has_control_key("open sesame", headers);
  };
  EXPECT_TRUE(passes("Authorization", "Bearer open sesame"));
  EXPECT_TRUE(passes("authorization", "basic YW55b25lOm9wZW4gc2VzYW1l"));  // anyone:open sesame
  EXPECT_TRUE(passes("X-Api-Key", "open sesame"));
  EXPECT_FALSE(passes("Authorization", "Bearer open"));
  EXPECT_FALSE(passes("Authorization", "Basic b3BlbiBzZXNhbWU="));  // no colon
  EXPECT_FALSE(passes("Authorization", "Basic !!!"));
  EXPECT_FALSE(passes("X-Other", "open sesame"));
  EXPECT_TRUE(has_control_key("", {}));
}

TEST(SessionHomes, ForgetsTheOneUsedLongestAgo) {
  SessionHomes homes(2);
  homes.set("a", "1");
  homes.set("b", "2");
  EXPECT_EQ(homes.find("a"), "1");
  homes.set("c", "3");
  EXPECT_EQ(homes.find("b"), "");
  EXPECT_EQ(homes.find("a"), "1");
}

TEST(Relay, DropsWhatBelongsToOneConnection) {
  Headers headers;
  for (const char* name :
       {"Connection", "Keep-Alive", "TE", "Host", "Content-Length", "X-Private", "X-Kept"}) {
    headers.add(name, "X-Private");
  }
  const Headers kept = end_to_end_headers(headers);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.begin()->first, "X-Kept");
}

TEST(History, KeepsTheNewestOfEachWorker) {
  History history({}, 2);
  for (int i = 1; i <= 3; ++i) history.add("w", {.time = i * 1.0, .tokens_per_second = i * 10.0});
  const auto json = parse_json(history.json(2.5));
  const JsonValue* series = json->find("workers")->find("w");
  EXPECT_EQ(series->find("time")->as_array().size(), 1u);
  EXPECT_EQ(series->find("tokens_per_second")->as_array()[0].as_double(), 30.0);
  EXPECT_TRUE(series->find("ttft_p50")->as_array()[0].is_null());
  history.keep_only({});
  EXPECT_EQ(history.json(0), R"({"workers":{}})");
}

TEST(History, AMinuteIsTheMeanOfItsRatesAndTheWorstOfItsRest) {
  const HistorySample minute = minute_of({{.time = 60,
                                           .tokens_per_second = 10,
                                           .ttft_p50 = 1,
                                           .ttft_p95 = 5,
                                           .rows_waiting = 7,
                                           .memory_bytes = 9},
                                          {.time = 65,
                                           .tokens_per_second = 30,
                                           .ttft_p50 = 3,
                                           .ttft_p95 = 4,
                                           .rows_running = 2,
                                           .memory_bytes = 8},
                                          {.time = 70}});
  EXPECT_EQ(minute.time, 70);
  EXPECT_NEAR(minute.tokens_per_second, 40.0 / 3, 1e-9);
  EXPECT_EQ(minute.ttft_p50, 2);
  EXPECT_EQ(minute.ttft_p95, 5);
  EXPECT_EQ(minute.rows_waiting, 7);
  EXPECT_EQ(minute.rows_running, 2);
  EXPECT_EQ(minute.memory_bytes, 9u);
}

size_t minutes_in(const History& history, const std::string& series) {
  const auto json = parse_json(history.json(0, true));
  const JsonValue* found = json->find("workers")->find(series);
  return found == nullptr ? 0 : found->find("time")->as_array().size();
}

TEST(History, MinutesOfADayOutliveARestart) {
  const std::string file = testing::TempDir() + "/fulmar_history_" + std::to_string(::getpid()) + ".jsonl";
  std::filesystem::remove(file);
  const double now = unix_time();
  {
    History history(file);
    history.add("old", {.time = now - 90'000});
    history.add("old", {.time = now - 89'900});  // closes the minute before, which is older than a day
    for (int i = 0; i < 5; ++i)
      history.add("w \"quoted\"", {.time = now - 600 + i * 60, .tokens_per_second = 1.0 * i});
    EXPECT_EQ(minutes_in(history, "w \"quoted\""), 4u) << "the minute under way is not one yet";
  }
  std::ofstream(file, std::ios::app) << "[\"cut off\",12\nnonsense\n[1,2,3,4,5,6,7,8]\n";
  const History again(file);
  EXPECT_EQ(minutes_in(again, "w \"quoted\""), 4u);
  EXPECT_EQ(minutes_in(again, "old"), 0u);
  EXPECT_EQ(again.json(0), R"({"workers":{}})") << "fine samples are of this run";
  std::filesystem::remove(file);
}

TEST(EventLog, KeepsTheNewestAndTellsThoseAfterATime) {
  EventLog events(2);
  for (const char* kind : {"started", "ready", "crashed"}) {
    events.add({.worker = "w", .kind = kind, .text = "exit code 3", .lines = {"last \"words\""}});
  }
  const auto json = parse_json(events.json(0));
  const auto& list = json->find("events")->as_array();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].find("kind")->as_string(), "ready");
  EXPECT_EQ(list[1].find("lines")->as_array()[0].as_string(), "last \"words\"");
  EXPECT_GT(list[1].find("time")->as_double(), 1e9);
  EXPECT_EQ(events.json(list[1].find("time")->as_double()), R"({"events":[]})");
}

constexpr const char* kState =
    "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_port\n"
    "3 workers 1 w1 10.0.0.9 2 0 8000\n"
    "3 workers 2 fulmar-a 10.0.0.1 2 0 8000\n3 workers 3 fulmar-b 10.0.0.2 2 8 8000\n"
    "3 workers 4 fulmar-c 10.0.0.3 0 1 8000\n\n";

TEST(Haproxy, ReadsOurServersOnly) {
  const auto servers = read_servers(kState);
  ASSERT_EQ(servers.size(), 3u);
  EXPECT_EQ(servers[0].name, "a");
  EXPECT_EQ(servers[0].address, "10.0.0.1");
  EXPECT_EQ(servers[0].port, 8000);
  EXPECT_TRUE(servers[1].draining);
  EXPECT_TRUE(servers[2].in_maintenance);
  EXPECT_THAT(read_servers("rubbish\n"), IsEmpty());
}

TEST(Haproxy, AddsDrainsAndRemoves) {
  const auto known = read_servers(kState);
  EXPECT_THAT(haproxy_commands("workers", {}, known),
              ElementsAre("set server workers/fulmar-a state maint",
                          "set server workers/fulmar-b state maint", "del server workers/fulmar-c"));
  EXPECT_THAT(
      haproxy_commands(
          "workers",
          {{"a", "10.0.0.1", 8000, true}, {"b", "10.0.0.2", 8000, false}, {"c", "10.0.0.3", 8000, false}},
          known),
      ElementsAre("set server workers/fulmar-a state drain", "set server workers/fulmar-b state ready",
                  "set server workers/fulmar-c state ready"));
  EXPECT_THAT(haproxy_commands("workers",
                               {{"d", "10.0.0.4", 8000, false},
                                {"e", "10.0.0.5", 8000, true},
                                {"f;x", "10.0.0.6", 8000, false},
                                {"g", "1 2", 8000, false}},
                               {}),
              ElementsAre(HasSubstr("add server workers/fulmar-d 10.0.0.4:8000 id "),
                          "enable health workers/fulmar-d", "enable server workers/fulmar-d"));
  EXPECT_THAT(haproxy_commands("workers", {{"a", "10.0.0.7", 8000, false}}, {known[0]}),
              ElementsAre("set server workers/fulmar-a state maint"))
      << "moved: removed first";
}

TEST(Haproxy, KeepsWhatIsMissingAfterAnOutageOfTheDirectory) {
  const auto known = read_servers(kState);
  std::vector<WantedServer> wanted{{"a", "10.0.0.1", 8000, true}};
  keep_missing(wanted, known);
  EXPECT_THAT(haproxy_commands("workers", wanted, known),
              ElementsAre("set server workers/fulmar-a state drain", "del server workers/fulmar-c"))
      << "b drains as before, c was on its way out";
}

}  // namespace
}  // namespace fulmar
