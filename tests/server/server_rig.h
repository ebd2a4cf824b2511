// A server over a scripted engine and a small vocabulary, for tests at the HTTP boundary.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/http_client.h"
#include "net/json.h"
#include "server/published_answers.h"
#include "server/server.h"
#include "server/small_model.h"
#include "support/scripted_engine.h"

namespace fulmar::testing {

struct Reply {
  int status = 0;
  Headers headers;
  std::string body;
  std::vector<std::string> chunks;  // as they came, of streams
};

inline Headers header(const std::string& name, const std::string& value) {
  Headers headers;
  headers.add(name, value);
  return headers;
}

class ServerRig {
 public:
  using Play = ScriptedEngine::Play;

  explicit ServerRig(ServerOptions options = {}, Play play = nullptr,
                     const std::function<void(ServedModel&)>& adjust = nullptr)
      : engine(play ? std::move(play) : [](const Ask&) { return hello(); }) {
    const auto facts = small_model(engine, tokenizer);
    if (adjust) adjust(*facts);
    model = facts;
    models.add(facts);
    options.port = 0;
    auto started = Server::start(options, models);
    EXPECT_TRUE(started.ok()) << (started.ok() ? "" : started.error().text);
    server = std::move(*started);
  }

  static Script hello() { return {.pieces = {"He", "llo", " wor", "ld"}, .stop_id = 0}; }

  std::string url(const std::string& path) const { return "http://" + server->address() + path; }

  Reply send(const std::string& method, const std::string& path, std::string body = {},
             const Headers& headers = {}) const {
    const auto response = fetch(method, url(path), headers, std::move(body));
    EXPECT_TRUE(response.ok()) << (response.ok() ? "" : response.error().text);
    if (!response) return {};
    EXPECT_EQ(PublishedAnswers::fault(method, path, response->status, response->headers.get("Content-Type"),
                                      response->body),
              "")
        << method << " " << path;
    return {response->status, response->headers, response->body, {}};
  }
  Reply post(const std::string& path, std::string body, const Headers& headers = {}) const {
    return send("POST", path, std::move(body), headers);
  }
  Reply get(const std::string& path, const Headers& headers = {}) const {
    return send("GET", path, {}, headers);
  }

  const Ask& last_ask() {
    asks_ = engine.asks();
    return asks_.back();
  }

  SmallTokenizer tokenizer;
  ScriptedEngine engine;
  ServedModelPtr model;
  ModelRegistry models;
  std::unique_ptr<Server> server;

 private:
  std::vector<Ask> asks_;
};

// The payloads of a stream; checks its framing: `data: ` lines only, [DONE] once and last.
inline std::vector<std::string> events_of(const std::string& stream) {
  std::vector<std::string> events;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos) << "unfinished event in: " << stream;
    if (end == std::string::npos) break;
    const std::string line = stream.substr(at, end - at);
    EXPECT_EQ(line.substr(0, 6), "data: ") << line;
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    events.push_back(line.substr(6));
    at = end + 2;
  }
  EXPECT_FALSE(events.empty());
  if (events.empty()) return events;
  EXPECT_EQ(events.back(), "[DONE]");
  events.pop_back();
  for (const std::string& event : events) EXPECT_TRUE(parse_json(event).ok()) << event;
  return events;
}

// Replaces what differs from run to run: ids and times.
inline std::string steady(std::string text) {
  const auto replace_after = [&](const std::string& lead, const char* allowed, const std::string& with) {
    for (size_t at = text.find(lead); at != std::string::npos; at = text.find(lead, at + lead.size())) {
      const size_t begin = at + lead.size();
      const size_t end = text.find_first_not_of(allowed, begin);
      if (end != begin) text.replace(begin, end - begin, with);
    }
  };
  replace_after("\"created\":", "0123456789", "1");
  replace_after("\"created_at\":", "0123456789", "1");
  replace_after("\"created_at\":\"", "0123456789-:.TZ", "t");
  replace_after("\"timestamp\":", "0123456789.e+", "1");
  replace_after("\"build_info\":\"", "fulmar 0123456789.", "x");
  replace_after("\"resp_", "0123456789abcdef", "x");
  replace_after("\"msg_", "0123456789abcdef", "x");
  replace_after("\"chatcmpl-", "0123456789abcdef", "x");
  replace_after("\"cmpl-", "0123456789abcdef", "x");
  replace_after("\"req-", "0123456789-", "x");
  return text;
}

}  // namespace fulmar::testing
