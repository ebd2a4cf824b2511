// The choice of a worker: by what a request's conversation is known, and one list of several.
#include "control/placement.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "control/merged_list.h"
#include "control/session_homes.h"
#include "net/json.h"

namespace fulmar {
namespace {

WorkerPtr worker(const char* id, const char* model, int64_t waiting, WorkerPhase phase = WorkerPhase::ready) {
  auto view = std::make_shared<WorkerView>();
  view->id = id;
  view->phase = phase;
  view->models = {model};
  view->may_have_sessions = true;
  view->queue.waiting = waiting;
  view->in_flight = std::make_shared<std::atomic<int64_t>>(0);
  return view;
}

TEST(Placement, PrefersTheModelThenTheShortestQueue) {
  const Fleet fleet{worker("a", "m", 5), worker("b", "m", 2), worker("c", "other", 0),
                    worker("d", "m", 0, WorkerPhase::draining), worker("e", "m", 0, WorkerPhase::starting)};
  EXPECT_EQ(choose_worker(fleet, {.model = "m"})->id, "b");
  EXPECT_EQ(choose_worker(fleet, {.model = "m state"})->id, "b");
  EXPECT_EQ(choose_worker(fleet, {.model = "m", .excluded = {"b"}})->id, "a");
  EXPECT_EQ(choose_worker(fleet, {.model = "unknown"})->id, "c");
  EXPECT_EQ(choose_worker(fleet, {})->id, "c");
  EXPECT_EQ(choose_worker({}, {}), nullptr);
}

TEST(Placement, SessionsStayAtHomeWhileItIsFit) {
  const Fleet fleet{worker("a", "m", 5), worker("b", "m", 2)};
  EXPECT_EQ(choose_worker(fleet, {.model = "m", .home = "a"})->id, "a");
  EXPECT_EQ(choose_worker(fleet, {.model = "m", .home = "gone"})->id, "b");
  EXPECT_EQ(choose_worker(fleet, {.model = "m", .home = "a", .home_is_guess = true})->id, "a");
  const Fleet uneven{worker("a", "m", 50), worker("b", "m", 2)};
  EXPECT_EQ(choose_worker(uneven, {.model = "m", .home = "a", .home_is_guess = true})->id, "b");
  EXPECT_EQ(choose_worker(uneven, {.model = "m", .home = "a"})->id, "a") << "its state is there";
}

TEST(Placement, CountsWhatIsUnderWay) {
  const Fleet fleet{worker("a", "m", 0), worker("b", "m", 0)};
  fleet[0]->in_flight->store(1);
  EXPECT_EQ(choose_worker(fleet, {.model = "m"})->id, "b");
}

Headers one_header(const std::string& name, const std::string& value) {
  Headers headers;
  headers.add(name, value);
  return headers;
}

SessionKey key_of_chat(const Headers& headers, const std::string& body) {
  return session_key("/v1/chat/completions", headers, *parse_json(body));
}

TEST(Placement, OneSessionHasOneKeyHoweverItIsNamed) {
  const std::string field = key_of_chat({}, R"({"session_id":"s"})").text;
  EXPECT_NE(field, "");
  EXPECT_EQ(key_of_chat({}, R"({"params":{"session_id":"s"}})").text, field);
  EXPECT_EQ(key_of_chat({}, R"({"session_id":"","params":{"session_id":"s"}})").text, field);
  EXPECT_EQ(key_of_chat(one_header("x-rwkv-session-id", "s"), "{}").text, field);
  for (const char* path :
       {"/v1/sessions/s", "/v1/sessions/s/state", "/v1/sessions/s/fork", "/v1/sessions/s:12/state"}) {
    EXPECT_EQ(session_key(path, {}, *parse_json(R"({"session_id":"copy"})")).text, field) << path;
  }
  Headers both = one_header("X-Fulmar-Session", "h");
  EXPECT_EQ(key_of_chat(both, R"({"session_id":"s"})").text, field)
      << "a hint takes no session from its worker";
  EXPECT_EQ(key_of_chat(both, "{}").kind, SessionKey::Kind::hint);
  EXPECT_NE(key_of_chat({}, R"({"session_id":"s:x"})").text, field);
  EXPECT_EQ(key_of_chat({}, "{}").text, "");
}

TEST(Placement, OneResponseHasOneKeyHoweverItIsNamed) {
  const auto key = [](const char* path, const char* body) {
    return session_key(path, {}, *parse_json(body));
  };
  const SessionKey turn = key("/v1/responses", R"({"input":"x","previous_response_id":"resp_1"})");
  EXPECT_EQ(turn.kind, SessionKey::Kind::response);
  EXPECT_EQ(key_of_response("resp_1", {}, {}).text, turn.text);
  EXPECT_EQ(key("/v1/responses/input_tokens", R"({"params":{"previous_response_id":"resp_1"}})").text,
            turn.text);
  for (const char* path :
       {"/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/responses/resp_1/input_items"}) {
    EXPECT_EQ(key(path, "{}").text, turn.text) << path;
  }
  EXPECT_NE(key_of_session("resp_1", {}, {}).text, turn.text);
}

TEST(Placement, OwnersHaveSessionsOfTheirOwn) {
  const auto key = [](const Headers& headers, const std::string& more = "") {
    return key_of_chat(headers, R"({"session_id":"s")" + more + "}").text;
  };
  const std::string alice = key(one_header("Authorization", "Bearer alice"));
  EXPECT_NE(alice, key(one_header("Authorization", "Bearer bob")));
  EXPECT_EQ(alice, key(one_header("X-Api-Key", "alice")));
  EXPECT_EQ(alice, key({}, R"(,"password":"alice")"));
  const Headers too_long = one_header("X-RWKV-Session-Id", std::string(513, 's'));
  EXPECT_EQ(key_of_chat(too_long, R"({"session_id":null})").text, "")
      << "no worker takes it, nobody needs to remember it";
}

TEST(Placement, AWorkerThatIsAwayMayComeBack) {
  EXPECT_FALSE(any_away({worker("a", "m", 0), worker("b", "m", 0, WorkerPhase::exited)}, false));
  const Fleet draining{worker("a", "m", 0), worker("b", "m", 0, WorkerPhase::draining)};
  EXPECT_TRUE(any_away(draining, false));
  EXPECT_FALSE(any_away(draining, true)) << "it answers what looks for something";
  EXPECT_TRUE(any_away({worker("b", "m", 0, WorkerPhase::waiting)}, true));
  EXPECT_EQ(choose_worker(draining, {.home = "b", .draining = true})->id, "b");
}

TEST(Placement, ASessionMayComeBackWithAWorkerThatDoesNotAnswer) {
  const WorkerPtr ready = worker("a", "m", 0);
  for (const WorkerPhase phase :
       {WorkerPhase::starting, WorkerPhase::unresponsive, WorkerPhase::stopping, WorkerPhase::waiting}) {
    const Fleet fleet{ready, worker("b", "other", 0, phase)};
    EXPECT_TRUE(may_come_back(fleet, ""));
    EXPECT_TRUE(may_come_back(fleet, "other"));
    EXPECT_TRUE(may_come_back(fleet, "unknown"));
    EXPECT_FALSE(may_come_back(fleet, "m"));
    auto unknown = std::make_shared<WorkerView>(*fleet[1]);
    unknown->models.clear();
    EXPECT_TRUE(may_come_back({ready, unknown}, "m"));
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"--state-store", "redis://x"}, {"--state-store=redis://x"}}) {
      unknown->spec.extra_arguments = words;
      EXPECT_FALSE(may_come_back({ready, unknown}, "m")) << "the others have it, too";
    }
    auto fresh = std::make_shared<WorkerView>(*fleet[1]);
    fresh->may_have_sessions = false;
    EXPECT_FALSE(may_come_back({ready, fresh}, ""));
  }
  for (const WorkerPhase phase : {WorkerPhase::draining, WorkerPhase::exited}) {
    EXPECT_FALSE(may_come_back({ready, worker("b", "m", 0, phase)}, ""));
  }
}

TEST(SessionClaims, TheFirstClaimCounts) {
  SessionHomes homes(2);
  EXPECT_EQ(homes.claim("s", "a"), "a");
  EXPECT_EQ(homes.claim("s", "b"), "a");
  EXPECT_EQ(homes.find("s"), "a");
}

TEST(MergedList, HasOnePageOfAllInOrder) {
  const ListForm& form = list_form("/v1/sessions");
  const std::vector<std::string_view> pages{
      R"({"object":"list","data":[{"id":"a"},{"id":"c"}],"has_more":true})",
      R"({"object":"list","data":[{"id":"b"},{"id":"c"},{"id":"d","owner":"x"},{"id":"d","owner":"y"}],"has_more":false})"};
  EXPECT_EQ(*merge_lists(form, pages, 2),
            R"({"object":"list","data":[{"id":"a"},{"id":"b"}],"has_more":true})");
  EXPECT_EQ(
      *merge_lists(form, {pages[1]}, 3),
      R"({"object":"list","data":[{"id":"b"},{"id":"c"},{"id":"d","owner":"x"},{"id":"d","owner":"y"}],"has_more":false})")
      << "a page ends behind the last id";
  EXPECT_FALSE(merge_lists(form, {pages[0], R"({"error":"x"})"}, 2))
      << "never a list that lacks a worker's part";
  EXPECT_EQ(*merge_lists(list_form("/api/tags"),
                         {R"({"models":[{"name":"m"}]})", R"({"models":[{"name":"m"}]})"}, 1),
            R"({"models":[{"name":"m"}]})");
}

TEST(Placement, KnowsAConversationByItsFirstTurn) {
  const auto key = [](const std::string& body) {
    return session_key("/v1/completions", {}, *parse_json(body)).text;
  };
  const std::string first =
      key(R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Hi"}]})");
  EXPECT_NE(first, "");
  EXPECT_EQ(
      key(R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"Hi"}]},
      {"role":"assistant","content":"Hello"},{"role":"user","content":"And you?"}]})"),
      first);
  EXPECT_NE(key(R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Ho"}]})"), first);
  EXPECT_EQ(key(R"({"prompt":"User: a\n\nAssistant:"})"),
            key(R"({"contents":["User: a\n\nAssistant: b\n\nUser: c\n\nAssistant:"]})"));
  EXPECT_NE(key(R"({"input":"a"})"), key(R"({"input":"b"})"));
  EXPECT_EQ(session_key("/v1/completions", {}, *parse_json(R"({"prompt":"x"})")).kind,
            SessionKey::Kind::guess);
  for (const char* none : {R"({"contents":["a","b"]})", R"({"messages":[]})",
                           R"({"messages":[{"role":"system","content":"S"}]})", R"({"messages":[1]})",
                           R"({"prompt":5})", "[]", R"({"messages":[{"content":"x"}]})"}) {
    EXPECT_EQ(key(none), "") << none;
  }
}

}  // namespace
}  // namespace fulmar
