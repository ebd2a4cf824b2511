// A control plane over fake workers, and patience.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/control_server.h"
#include "net/http_client.h"
#include "net/json.h"
#include "support/folders.h"

namespace fulmar::test {

inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class ControlRig : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("fulmar_control_" + std::to_string(::getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    options_.port = 0;
    options_.gpus = [] { return std::vector<int64_t>{0, 1}; };
    options_.supervisor.program = (support::build_folder() / "fulmar_fake_worker").string();
    options_.supervisor.grace = std::chrono::milliseconds(1500);
    options_.supervisor.start_probe_every = std::chrono::milliseconds(20);
    options_.supervisor.probe_every = std::chrono::milliseconds(50);
    options_.supervisor.history_every = std::chrono::milliseconds(50);
    options_.supervisor.back_off = {.first = std::chrono::milliseconds(50),
                                    .most = std::chrono::milliseconds(200)};
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  void begin() {
    auto started = ControlServer::start(options_);
    ASSERT_TRUE(started.ok()) << started.error().text;
    server_ = std::move(*started);
  }

  // An empty model file whose name tells the fake worker what to do.
  std::string model(const std::string& name) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << "x";
    return path;
  }

  std::string url(const std::string& target) const { return "http://" + server_->address() + target; }

  HttpResponse ask(const std::string& method, const std::string& target, std::string body = {},
                   const Headers& headers = {}) const {
    auto response = fetch(method, url(target), headers, std::move(body));
    EXPECT_TRUE(response.ok()) << target << ": " << response.error().text;
    return response.ok() ? *response : HttpResponse{.status = 0};
  }
  JsonValue ask_json(const std::string& target) const {
    const auto body = parse_json(ask("GET", target).body);
    EXPECT_TRUE(body.ok()) << target;
    return body.ok() ? *body : JsonValue();
  }

  // Starts a worker over HTTP; its id.
  std::string start(const std::string& model_name, const std::string& more = "",
                    const Headers& headers = {}) const {
    const HttpResponse response = ask("POST", "/api/workers/start",
                                      R"({"model_path":")" + model(model_name) + "\"" + more + "}", headers);
    EXPECT_EQ(response.status, 200) << response.body;
    const auto body = parse_json(response.body);
    return body.ok() && body->find("worker_id") ? body->find("worker_id")->as_string() : "";
  }
  std::string start_ready(const std::string& model_name, const std::string& more = "",
                          const Headers& headers = {}) const {
    const std::string id = start(model_name, more, headers);
    EXPECT_TRUE(eventually([&] {
      return worker(id)->phase == WorkerPhase::ready && !worker(id)->models.empty();
    })) << id;
    return id;
  }
  WorkerPtr worker(const std::string& id) const {
    const auto found = find_worker(*server_->supervisor().fleet(), id);
    return found ? found : std::make_shared<const WorkerView>();
  }
  bool logged(const std::string& id, const std::string& text) const {
    for (const std::string& line : worker(id)->log->tail(5000)) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }

  std::filesystem::path folder_;
  ControlOptions options_;
  std::unique_ptr<ControlServer> server_;
};

// A streaming request whose chunks can be watched while it runs.
class Watched {
 public:
  Watched(uint16_t port, std::string target, std::string body) {
    call_ = client_.send({.method = "POST",
                          .host = "127.0.0.1",
                          .port = port,
                          .target = std::move(target),
                          .body = std::move(body)},
                         {.on_data =
                              [this](std::string_view bytes) {
                                std::lock_guard lock(mutex_);
                                chunks_.emplace_back(bytes);
                              },
                          .on_end =
                              [this](Status outcome) {
                                std::lock_guard lock(mutex_);
                                ended_ = true;
                                fine_ = outcome.ok();
                              }});
  }
  std::vector<std::string> chunks() {
    std::lock_guard lock(mutex_);
    return chunks_;
  }
  bool ended() {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  bool fine() {
    std::lock_guard lock(mutex_);
    return fine_;
  }
  void cancel() { call_->cancel(); }

 private:
  std::mutex mutex_;
  std::vector<std::string> chunks_;
  bool ended_ = false, fine_ = false;
  std::shared_ptr<ClientCall> call_;
  HttpClient client_;  // first to go: its callbacks use the rest
};

// The model of the fake worker that has answered.
inline std::string served_by(const HttpResponse& response) {
  return std::string(response.headers.get("X-Served-By"));
}

}  // namespace fulmar::test
