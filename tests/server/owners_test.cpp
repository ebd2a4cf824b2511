// What one key has made no other key sees, uses or changes: on every route, in every place that takes an id.
// The places are found in the tables of routes and fields, so that new ones are tried too.
#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <thread>

#include "cache/session_name.h"
#include "grammar/schema_values.h"
#include "server/admin_rig.h"
#include "server/core/owner.h"
#include "server/routes.h"

namespace fulmar::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ServerOptions with_owners() {
  ServerOptions options;
  options.password = "password";
  options.api_keys.emplace();
  for (const std::string name : {"alice", "bob", "carol"}) {
    ApiKey key;
    key.name = name;
    key.hash = hash_of_key(name);
    key.routes = {"/*"};
    options.api_keys->push_back(std::move(key));
  }
  return options;
}

Headers as(const std::string& key) { return header("Authorization", "Bearer " + key); }

// A body that the route takes, made of what its fields are called.
JsonObject body_of(const Route& route) {
  const std::pair<std::string_view, JsonValue> kInputs[] = {
      {"messages", *parse_json(R"([{"role":"user","content":"hi"}])")},
      {"contents", *parse_json(R"(["A"])")},
      {"input", JsonValue(std::string("hi"))},
      {"prompt", JsonValue(std::string("hi"))},
  };
  const std::pair<std::string_view, JsonValue> kOthers[] = {
      {"max_tokens", JsonValue(int64_t{2})},         {"dialogue_idx", JsonValue(int64_t{0})},
      {"prefix", *parse_json(R"(["a"])")},           {"suffix", *parse_json(R"(["b"])")},
      {"text_list", *parse_json(R"(["a"])")},        {"target_lang", JsonValue(std::string("en"))},
      {"input_prefix", JsonValue(std::string("a"))}, {"input_suffix", JsonValue(std::string("b"))},
      {"content", JsonValue(std::string("a"))},      {"tokens", *parse_json("[65]")},
      {"text", JsonValue(std::string("a"))},
  };
  std::vector<JsonObject::Member> members;
  const auto takes = [&](std::string_view name) { return route.note->fields.find(name) != nullptr; };
  for (const auto& [name, value] : kInputs) {
    if (!takes(name)) continue;
    members.emplace_back(std::string(name), value);
    break;
  }
  for (const auto& [name, value] : kOthers) {
    const bool hole = name == "suffix" && !takes("prefix");
    const bool format = route.path.starts_with("/v1/responses") && name == "text";
    if (takes(name) && !hole && !format) members.emplace_back(std::string(name), value);
  }
  return JsonObject(std::move(members));
}

// Where a request names an id.
struct Place {
  enum class Kind { path, query, header, field } kind;
  std::string name;
};

// The path's star; each field that is called an id or a name; and what goes beside bodies.
std::vector<Place> places_of(const Route& route) {
  std::vector<Place> places;
  if (route.path.find('*') != std::string_view::npos) places.push_back({Place::Kind::path, {}});
  std::set<std::string_view> names;
  for (const FieldGroup* group : route.note->fields.all()) {
    for (const Field& field : group->fields) {
      const bool may_be_id =
          field.name.ends_with("_id") || field.name == "model" || field.name.ends_with("name");
      if (may_be_id && names.insert(field.name).second) {
        places.push_back({Place::Kind::field, std::string(field.name)});
      }
    }
  }
  for (const std::string name : {"session_id", "request_id", "state_id", "previous_response_id"}) {
    if (names.insert(name).second) places.push_back({Place::Kind::field, name});
  }
  places.push_back({Place::Kind::query, "state_id"});
  places.push_back({Place::Kind::query, "after"});
  places.push_back({Place::Kind::header, "X-RWKV-Session-Id"});
  places.push_back({Place::Kind::header, "X-RWKV-State-Id"});
  return places;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Times and durations differ from one answer to the next.
// Numbers that are members go whole: a measured speed is written with a point, an exponent or neither.
std::string without_digits(const std::string& text) {
  constexpr std::string_view kOfNumbers = "+-.0123456789Ee";
  std::string kept;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) kept += c;
    const bool begins = c == ':' && at + 1 < text.size() && (text[at + 1] == '-' || isdigit(text[at + 1]));
    if (begins) at = std::min(text.find_first_not_of(kOfNumbers, at + 1), text.size()) - 1;
  }
  return kept;
}

TEST(WithoutDigits, IsTheSameHoweverANumberIsWritten) {
  for (const char* speed : {"1000000", "1e+06", "12.5", "-3.25E-07", "0"}) {
    EXPECT_EQ(without_digits(std::string(R"({"n":)") + speed + R"(,"id":"her-1e5x"})"),
              R"({"n":,"id":"her-ex"})")
        << speed;
  }
}

// The members called "id" or "..._id" that hold a text, at any depth.
void collect_ids(const JsonValue& value, std::set<std::string>& ids) {
  if (value.is_array()) {
    for (const JsonValue& one : value.as_array()) collect_ids(one, ids);
  }
  if (!value.is_object()) return;
  for (const auto& [name, member] : value.as_object().members()) {
    if ((name == "id" || name.ends_with("_id")) && member.is_string()) ids.insert(member.as_string());
    collect_ids(member, ids);
  }
}

class OwnersOnEveryRoute : public ::testing::Test {
 protected:
  OwnersOnEveryRoute() : rig_(with_owners()) {}
  ~OwnersOnEveryRoute() override {
    rig_.engine.hold_after(-1);
    for (std::thread& client : clients_) client.join();
  }

  Reply ask(const Route& route, const std::string& key, const Place& place, const std::string& id) {
    std::string path = path_with(route.path, "none-of-anybody");
    Headers headers = as(key);
    std::vector<JsonObject::Member> members = body_of(route).members();
    switch (place.kind) {
      case Place::Kind::path:
        path = path_with(route.path, id);
        break;
      case Place::Kind::query:
        path += "?" + place.name + "=" + id;
        break;
      case Place::Kind::header:
        headers.add(place.name, id);
        break;
      case Place::Kind::field:
        std::erase_if(members, [&](const auto& member) { return member.first == place.name; });
        members.emplace_back(place.name, JsonValue(id));
        break;
    }
    const bool has_body = route.method != "GET";
    return rig_.send(std::string(route.method), path,
                     has_body ? json_text(JsonValue(JsonObject(std::move(members)))) : std::string(),
                     headers);
  }

  // What alice has: a session, a tree of them, stored responses, a state, a stream under way and a paused
  // one.
  std::set<std::string> make_things() {
    const Headers alice = as("alice");
    std::set<std::string> ids{"her-session", "her-tree", "her-tree:1", "her-tree:2", "her-state"};
    const auto post = [&](const std::string& path, const std::string& body) {
      const Reply reply = rig_.post(path, body, alice);
      EXPECT_EQ(reply.status, 200) << path << reply.body;
      if (const auto answer = parse_json(reply.body)) collect_ids(*answer, ids);
    };
    post("/v1/chat/completions",
         R"({"messages":[{"role":"user","content":"hi"}],"session_id":"her-session","max_tokens":2})");
    for (const char* from : {"0", "1"}) {
      post("/multi_state/chat/completions", R"({"contents":["A"],"session_id":"her-tree","dialogue_idx":)" +
                                                std::string(from) + R"(,"max_tokens":2})");
    }
    post("/v1/responses", R"({"input":"hi","max_output_tokens":2})");
    post("/v1/responses", R"({"input":"hi","background":true,"max_output_tokens":2})");
    Headers form = alice;
    form.add("Content-Type", "multipart/form-data; boundary=b");
    EXPECT_EQ(
        rig_.post("/v1/state/upload",
                  "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"her-state.pth\"\r\n\r\n"
                  "x\r\n--b--\r\n",
                  form)
            .status,
        200);
    rig_.engine.wait_idle();
    rig_.engine.hold_after(1);
    begin_stream();
    const auto paused = parse_json(rig_.post("/v1/server/pause", "{}", alice).body);
    EXPECT_TRUE(paused->find("paused")->as_bool());
    collect_ids(*paused, ids);
    begin_stream();
    if (const auto slots = parse_json(rig_.get("/v1/server/status", alice).body)) collect_ids(*slots, ids);
    // What only tells answers apart is no id that a route takes.
    std::erase_if(ids, [](const std::string& id) {
      return !id.starts_with("her-") && !id.starts_with("resp_") && !id.starts_with("req-");
    });
    return ids;
  }
  void begin_stream() {
    const size_t before = rig_.engine.asks().size();
    clients_.emplace_back([this] {
      rig_.post("/v1/chat/completions", R"({"contents":["A"],"stream":true,"max_tokens":4})", as("alice"));
    });
    while (rig_.engine.asks().size() == before) std::this_thread::yield();
    while (parse_json(rig_.get("/v1/server/status", as("alice")).body)
               ->find("active_requests")
               ->as_array()
               .empty())
      std::this_thread::yield();
  }

  void forget_sessions(const std::string& key) {
    const auto list = parse_json(rig_.get("/v1/sessions", as(key)).body);
    for (const JsonValue& session : list->find("data")->as_array()) {
      rig_.send("DELETE", "/v1/sessions/" + session.find("id")->as_string(), {}, as(key));
    }
  }

  // All that the key can read in lists.
  std::string seen_by(const std::string& key) {
    std::string seen;
    for (const std::string path :
         {"/v1/sessions", "/v1/state/list", "/v1/server/status", "/v1/models", "/slots"}) {
      seen += rig_.get(path, as(key)).body;
    }
    seen += rig_.post("/state/status", "{}", as(key)).body;
    return seen;
  }

  AdminRig rig_;
  std::vector<std::thread> clients_;
};

// Bob sends alice's ids; carol sends, in the same order, ids that nobody has. All answers are the same.
TEST_F(OwnersOnEveryRoute, AnothersIdIsAsGoodAsNone) {
  const std::set<std::string> ids = make_things();
  ASSERT_GE(ids.size(), 9u);
  rig_.engine.hold_after(-1);  // alice's requests go on or are over; others' are not to wait
  rig_.engine.wait_idle();
  const std::string before = seen_by("alice");
  int tried = 0;
  for (const std::string& id : ids) {
    for (const std::string key : {"bob", "carol"}) forget_sessions(key);
    std::string unknown = id;  // of the same length and kind
    for (size_t i = unknown.size() - 3; i < unknown.size(); ++i) {
      if (unknown[i] >= '0' && unknown[i] <= '9') unknown[i] = static_cast<char>('9' - (unknown[i] - '0'));
      if (unknown[i] >= 'a' && unknown[i] <= 'z') unknown[i] = unknown[i] == 'z' ? 'y' : 'z';
    }
    if (unknown == id || ids.contains(unknown)) unknown = "zz" + id.substr(2);
    for (const Route& route : routes()) {
      for (const Place& place : places_of(route)) {
        const Reply mine = ask(route, "bob", place, id);
        const Reply none = ask(route, "carol", place, unknown);
        const std::string what =
            std::string(route.method) + " " + std::string(route.path) + " " + place.name + "=" + id;
        ASSERT_EQ(mine.status, none.status) << what << ": " << mine.body << " and " << none.body;
        const auto same = [&](std::string text, const std::string& own, const std::string& key) {
          return without_digits(steady(replace_all(replace_all(std::move(text), own, "ID"), key, "KEY")));
        };
        if (route.access != Access::status && route.access != Access::open) {
          ASSERT_EQ(same(mine.body, id, "bob"), same(none.body, unknown, "carol")) << what;
        }
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 5000);
  EXPECT_EQ(without_digits(seen_by("alice")), without_digits(before));
}

TEST_F(OwnersOnEveryRoute, ListsAreDisjoint) {
  const std::set<std::string> ids = make_things();
  for (const std::string key : {"bob", "nobody"}) {
    const std::string seen = seen_by(key);
    for (const std::string& id : ids) EXPECT_THAT(seen, Not(HasSubstr("\"" + id))) << key;
  }
  const std::string hers = seen_by("alice"), all = seen_by("password");
  for (const std::string id : {"her-session", "her-tree:1", "her-state"}) {
    EXPECT_THAT(hers, HasSubstr(id));
    EXPECT_THAT(all, HasSubstr(id));
  }
}

TEST_F(OwnersOnEveryRoute, WithoutAKeySlotsAndStatusTellNoIds) {
  make_things();
  const auto slots = parse_json(rig_.get("/slots").body);
  bool used = false;
  for (const JsonValue& slot : slots->as_array()) {
    if (slot.find("is_processing")->as_bool()) {
      used = true;
      EXPECT_TRUE(slot.find("request_id")->is_null());
    }
  }
  EXPECT_TRUE(used);
  const auto status = parse_json(rig_.get("/v1/server/status").body);
  EXPECT_TRUE(status->find("active_request")->is_null());
  EXPECT_TRUE(status->find("last_request")->is_null());
  EXPECT_EQ(status->find("active_requests")->as_array().size(), 0u);
  EXPECT_EQ(status->find("paused_requests")->as_array().size(), 0u);
}

TEST_F(OwnersOnEveryRoute, WhatAnAdministratorUploadsIsForAll) {
  Headers form = as("password");
  form.add("Content-Type", "multipart/form-data; boundary=b");
  const auto upload = [&](const Headers& headers, const std::string& name) {
    return rig_.post("/v1/state/upload",
                     "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
                         ".pth\"\r\n\r\nx\r\n--b--\r\n",
                     headers);
  };
  EXPECT_EQ(upload(form, "shared").status, 200);
  const std::string body = R"({"prompt":"x","max_tokens":1,"state_id":"shared"})";
  for (const std::string key : {"alice", "bob"}) {
    EXPECT_EQ(rig_.post("/v1/completions", body, as(key)).status, 200);
    EXPECT_EQ(rig_.last_ask().state.initial_state, "shared");
    EXPECT_EQ(rig_.post("/v1/state/delete", R"({"state_id":"shared"})", as(key)).status, 404);
  }
  Headers hers = as("alice");
  hers.add("Content-Type", "multipart/form-data; boundary=b");
  EXPECT_EQ(upload(hers, "shared").status, 200) << "one of her own of that name";
  EXPECT_EQ(rig_.post("/v1/completions", body, as("alice")).status, 200);
  EXPECT_EQ(session_name(rig_.last_ask().state.initial_state), (SessionName{"alice", "shared"}));
  EXPECT_EQ(rig_.post("/v1/completions", body, as("bob")).status, 200);
  EXPECT_EQ(rig_.last_ask().state.initial_state, "shared");
  EXPECT_THAT(rig_.get("/v1/models", as("alice")).body, HasSubstr("tiny-rwkv7 shared"));
}

TEST_F(OwnersOnEveryRoute, AnAdministratorReachesWhatIsOthers) {
  make_things();
  EXPECT_EQ(rig_.send("DELETE", "/v1/sessions/her-session", {}, as("password")).status, 200);
  EXPECT_EQ(rig_.send("DELETE", "/v1/sessions/her-session", {}, as("password")).status, 404);
  Headers as_alice = as("password");
  as_alice.add(std::string(kOwnerHeader), "alice");
  EXPECT_THAT(rig_.get("/v1/sessions", as_alice).body, HasSubstr("her-tree:1"));
  EXPECT_EQ(rig_.post("/state/delete", R"({"session_id":"her-tree","delete_prefix":true})", as_alice).status,
            200);
  EXPECT_THAT(rig_.get("/v1/sessions", as("alice")).body, Not(HasSubstr("her-tree")));
}

}  // namespace
}  // namespace fulmar::testing
