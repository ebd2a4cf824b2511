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
#include "server/server.h"
#include "support/scripted_engine.h"

namespace fulmar::testing {

// Bytes are the ids 1 to 256, as in the World vocabulary; besides, the ids that stops are made of.
class SmallTokenizer : public Tokenizer {
 public:
  SmallTokenizer() {
    for (size_t i = 0; i < 256; ++i)
      bytes_[static_cast<int32_t>(i) + 1] = std::string(1, static_cast<char>(i));
    bytes_[261] = "\n\n";
    bytes_[754] = "</";
    bytes_[10060] = "\u273F";
    bytes_[24281] = "User";
  }
  using Tokenizer::encode;
  // Bytes only: prompts are then as long as their text.
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c) + 1);
  }
  std::string_view bytes(int32_t id) const override {
    const auto found = bytes_.find(id);
    return found == bytes_.end() ? std::string_view() : found->second;
  }
  int32_t vocabulary_size() const override { return 24282; }
  std::string_view name() const override { return "small"; }
  std::optional<int32_t> eos() const override { return 0; }

 private:
  std::map<int32_t, std::string> bytes_;
};

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
    auto facts = std::make_shared<ServedModel>();
    facts->id = "tiny-rwkv7";
    facts->path = "/models/tiny-rwkv7.pth";
    facts->created = 1700000000;
    facts->runtime = "f32";
    facts->vocabulary = 65536;
    facts->engine = &engine;
    facts->tokenizer = &tokenizer;
    facts->end_token = 0;
    facts->stops = {.chat_ids = {},
                    .chat_texts = {"\n\nUser:", "\nUser:"},
                    .turn_ids = {261, 24281},
                    .turn_texts = {},
                    .infill_ids = {10060},
                    .infill_texts = {}};
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
