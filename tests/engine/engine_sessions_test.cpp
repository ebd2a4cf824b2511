// Sessions through the engine: whatever was saved, restored, rewound or shared, the text must be that of one
// uninterrupted run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "cache/sqlite_store.h"
#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::fresh;
using testing::in_session;
using testing::RecordingListener;
using testing::RowLog;
using testing::TinyEngine;

std::filesystem::path database(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / (name + ".db");
  for (const char* ending : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + ending);
  return path;
}

TEST(Sessions, ATurnContinuesWhereTheLastOneEnded) {
  TinyEngine tiny;
  const std::string answer = bytes_of(tiny.run(in_session("s", "first turn", 9)));
  const std::string second = bytes_of(tiny.run(in_session("s", " and second", 9)));
  EXPECT_EQ(second, bytes_of(tiny.run(fresh("first turn" + answer + " and second", 9))));
  const auto sessions = tiny.engine().sessions({});
  ASSERT_EQ(sessions->size(), 1u);
  EXPECT_EQ(sessions->at(0).tokens, 10 + 9 + 11 + 9);
  EXPECT_EQ(sessions->at(0).turn, 2);
}

TEST(Sessions, AStopTextLeavesNoTraceInTheState) {
  TinyEngine tiny;
  const std::string whole = bytes_of(tiny.run(fresh("stop text session", 30)));
  for (const size_t length : {1u, 2u, 5u}) {
    const std::string id = "s" + std::to_string(length);
    Ask ask = in_session(id, "stop text session", 30);
    const size_t at = 11;
    // The second one begins like the match and goes on differently: the rewind must survive false alarms.
    ask.stop.texts = {whole.substr(at, length), whole.substr(at - 3, 2) + "\x01never"};
    const std::string kept = bytes_of(tiny.run(ask));
    ASSERT_EQ(kept, whole.substr(0, whole.find(whole.substr(at, length))));
    EXPECT_EQ(bytes_of(tiny.run(in_session(id, " next", 12))),
              bytes_of(tiny.run(fresh("stop text session" + kept + " next", 12))));
  }
}

TEST(Sessions, AStopIdIsNotFedToTheState) {
  TinyEngine tiny;
  const std::string whole = bytes_of(tiny.run(fresh("stop id session", 30)));
  Ask ask = in_session("s", "stop id session", 30);
  ask.stop.ids = {static_cast<unsigned char>(whole[7])};
  const std::string kept = bytes_of(tiny.run(ask));
  EXPECT_EQ(bytes_of(tiny.run(in_session("s", " next", 12))),
            bytes_of(tiny.run(fresh("stop id session" + kept + " next", 12))));
}

TEST(Sessions, ACancelledTurnChangesNothingUnlessAsked) {
  TinyEngine tiny;
  const std::string answer = bytes_of(tiny.run(in_session("s", "kept turn", 5)));
  std::string id;
  auto cut = tiny.submit({in_session("s", " discarded", 100000)}, &id);
  ASSERT_TRUE(cut->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  tiny.engine().cancel({}, id);
  cut->finished();
  const std::string expected = bytes_of(tiny.run(fresh("kept turn" + answer + " after", 8)));
  Ask probe = in_session("s", " after", 8);
  probe.state.write_session.clear();
  EXPECT_EQ(bytes_of(tiny.run(probe)), expected);

  Ask keep = in_session("s", " kept this time", 100000);
  keep.state.keep_on_cancel = true;
  auto kept = tiny.submit({keep}, &id);
  ASSERT_TRUE(kept->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  tiny.engine().cancel({}, id);
  const std::string partial = bytes_of(kept->finished().at(0));
  EXPECT_EQ(bytes_of(tiny.run(probe)),
            bytes_of(tiny.run(fresh("kept turn" + answer + " kept this time" + partial + " after", 8))));
}

TEST(Sessions, RequestsForOneSessionRunOneAfterAnother) {
  TinyEngine tiny;
  auto first = tiny.submit({in_session("s", "one", 40)});
  auto second = tiny.submit({in_session("s", "two", 6)});
  const std::string answer = bytes_of(first->finished().at(0));
  EXPECT_EQ(bytes_of(second->finished().at(0)), bytes_of(tiny.run(fresh("one" + answer + "two", 6))));
}

TEST(Sessions, TheContinuingFormIsFedOnlyWhenTheSessionExists) {
  TinyEngine tiny;
  Ask ask = in_session("s", "turn", 4);
  ask.state.continuing = TinyEngine::greedy("\n\nturn", 0).prompt;
  const std::string answer = bytes_of(tiny.run(ask));
  EXPECT_EQ(answer, bytes_of(tiny.run(fresh("turn", 4))));
  EXPECT_EQ(bytes_of(tiny.run(ask)), bytes_of(tiny.run(fresh("turn" + answer + "\n\nturn", 4))));
}

TEST(Sessions, AMissingSessionFailsARowThatNeedsIt) {
  TinyEngine tiny;
  Ask ask = in_session("nowhere", "x", 4);
  ask.state.must_exist = true;
  const RowLog row = tiny.run(ask);
  EXPECT_EQ(row.last->reason, FinishReason::failed);
  EXPECT_EQ(row.last->error->text, "session 'nowhere' does not exist");
  EXPECT_EQ(tiny.engine().stats().slots_used, 0);
}

// Names of the server's own are not for clients.
TEST(Sessions, AMissingStateOfAResponseIsToldWithoutItsName) {
  TinyEngine tiny;
  Ask ask = in_session("resp:x", "x", 4);
  ask.state.must_exist = ask.state.server_named = true;
  const RowLog row = tiny.run(ask);
  ASSERT_TRUE(row.last->error);
  EXPECT_EQ(row.last->error->kind, ErrorKind::not_found);
  EXPECT_NE(row.last->error->text.find("is not kept"), std::string::npos) << row.last->error->text;
  EXPECT_EQ(row.last->error->text.find("resp:x"), std::string::npos) << row.last->error->text;
}

TEST(Sessions, LevelsFillInOrderAndSurviveARestart) {
  const auto path = database("levels");
  const EngineOptions options{
      .slots = 4, .prefill_chunk = 32, .device_sessions = 3, .sessions = {.host_capacity = 4}};
  std::vector<std::string> answers;
  {
    TinyEngine tiny(options, 7, *open_sqlite_store(path));
    for (int i = 0; i < 12; i++) {
      const std::string id = "session " + std::to_string(i);
      answers.push_back(bytes_of(tiny.run(in_session(id, "I am " + id, 6))));
    }
    std::map<SessionInfo::Level, int> counts;
    const auto sessions = tiny.engine().sessions({});
    for (const auto& session : *sessions) counts[session.level]++;
    EXPECT_EQ(counts[SessionInfo::Level::device], 3);
    EXPECT_EQ(counts[SessionInfo::Level::host], 4);
    EXPECT_EQ(counts[SessionInfo::Level::store], 5);
  }
  TinyEngine tiny(options, 7, *open_sqlite_store(path));
  EXPECT_EQ(tiny.engine().sessions({})->size(), 12u);
  for (int i = 0; i < 12; i++) {
    const std::string id = "session " + std::to_string(i);
    EXPECT_EQ(bytes_of(tiny.run(in_session(id, " go on", 6))),
              bytes_of(tiny.run(fresh("I am " + id + answers[static_cast<size_t>(i)] + " go on", 6))))
        << id;
  }
}

TEST(Sessions, LevelsOfAnySizeGiveSessionsBack) {
  for (const int64_t device : {0, 1, 2}) {
    for (const int64_t host : {0, 1, 2}) {
      SCOPED_TRACE(std::to_string(device) + " on the device, " + std::to_string(host) + " in memory");
      const auto path = database("sizes");
      TinyEngine tiny(
          {.slots = 2, .prefill_chunk = 32, .device_sessions = device, .sessions = {.host_capacity = host}},
          7, *open_sqlite_store(path));
      std::map<int, std::string> said;
      for (const int i : {0, 1, 2, 0, 2, 1, 3, 0, 3}) {
        const std::string turn = "turn of " + std::to_string(i);
        const std::string answer = bytes_of(tiny.run(in_session("s" + std::to_string(i), turn, 3)));
        EXPECT_EQ(answer, bytes_of(tiny.run(fresh(said[i] + turn, 3))));
        said[i] += turn + answer;
      }
    }
  }
}

TEST(Sessions, ErasedSessionsAreGoneOnEveryLevel) {
  TinyEngine tiny({.slots = 2, .prefill_chunk = 32, .device_sessions = 1, .sessions = {.host_capacity = 1}},
                  7, *open_sqlite_store(database("erase")));
  for (const char* id : {"a", "a:1", "a:2", "ab"}) tiny.run(in_session(id, "x", 2));
  EXPECT_EQ(*tiny.engine().erase_session({}, "a", false), 1);
  EXPECT_FALSE(*tiny.engine().has_session({}, "a"));
  EXPECT_EQ(*tiny.engine().erase_session({}, "a", false), 0);
  EXPECT_EQ(*tiny.engine().erase_session({}, "a", true), 2);
  ASSERT_EQ(tiny.engine().sessions({})->size(), 1u);
  EXPECT_EQ(tiny.engine().sessions({})->at(0).id, "ab");
}

TEST(Sessions, AnExportedSessionContinuesElsewhere) {
  TinyEngine here;
  const std::string answer = bytes_of(here.run(in_session("s", "take me along", 6)));
  const auto blob = here.engine().export_session({}, "s");
  ASSERT_TRUE(blob.ok());
  const auto copy = decode_blob(encode_blob(*blob));
  ASSERT_TRUE(copy.ok()) << copy.error().text;
  TinyEngine there;
  ASSERT_TRUE(there.engine().import_session({}, "t", *copy).ok());
  EXPECT_EQ(bytes_of(there.run(in_session("t", " onwards", 6))),
            bytes_of(here.run(fresh("take me along" + answer + " onwards", 6))));
  TinyEngine stranger({.slots = 1}, 6);
  EXPECT_EQ(stranger.engine().import_session({}, "t", *copy).error().kind, ErrorKind::invalid);
}

TEST(Sessions, AStateThatIsNotANumberIsRefused) {
  TinyEngine tiny;
  tiny.run(in_session("s", "to be spoilt", 2));
  StateBlob blob = *tiny.engine().export_session({}, "s");
  const float bad[] = {std::nanf(""), INFINITY};
  for (const float value : bad) {
    std::memcpy(blob.payload.data() + blob.layout.offset(1, kWkv), &value, sizeof(value));
    const Status taken = tiny.engine().import_session({}, "t", blob);
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().kind, ErrorKind::invalid);
    EXPECT_NE(taken.error().text.find("wkv of layer 1"), std::string::npos) << taken.error().text;
    EXPECT_FALSE(*tiny.engine().has_session({}, "t"));
  }
}

// What is imported is written with larger counts after each turn, and has to be read then.
TEST(Sessions, WhatCanBeImportedCanBeReadAfterFurtherTurns) {
  TinyEngine tiny;
  tiny.run(in_session("s", "to be counted", 2));
  StateBlob blob = *tiny.engine().export_session({}, "s");
  for (int bit = 0; bit < 63; ++bit) {
    const int64_t tokens = int64_t{1} << bit;
    blob.tokens = tokens;
    const std::string id = "t" + std::to_string(tokens);
    const Status taken = tiny.engine().import_session({}, id, blob);
    if (!taken.ok()) {
      EXPECT_EQ(taken.error().kind, ErrorKind::invalid);
      EXPECT_NE(taken.error().text.find(std::to_string(tokens)), std::string::npos) << taken.error().text;
      continue;
    }
    blob.tokens = tokens + 1'000'000'000'000;  // no session is fed more
    EXPECT_TRUE(decode_blob(encode_blob(blob)).ok()) << tokens;
  }
  blob.tokens = int64_t{1} << 53;
  EXPECT_FALSE(tiny.engine().import_session({}, "large", blob).ok());
}

TEST(Sessions, CountsThatWouldOverflowAreRefused) {
  StateBlob blob{.fingerprint = "f",
                 .layout = {.n_layer = 1, .n_embd = 2, .n_head = 1, .head_size = 2, .fields = kShiftsAndWkv}};
  blob.payload.resize(blob.layout.slot_bytes());
  EXPECT_TRUE(decode_blob(encode_blob(blob)).ok());
  for (int64_t StateBlob::*count : {&StateBlob::tokens, &StateBlob::turn}) {
    StateBlob large = blob;
    large.*count = std::numeric_limits<int64_t>::max() - 1;
    const auto read = decode_blob(encode_blob(large));
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
  }
}

// A pause holds no session: others may go on with it, and then the paused turn may not.
class PausedTurn : public ::testing::Test {
 protected:
  // A turn of session "s", paused.
  void pause_in(TinyEngine& tiny) {
    Ask ask = in_session("s", " paused", 100000);
    auto running = tiny.submit({ask}, &id_, true);
    ASSERT_TRUE(
        running->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
    ASSERT_TRUE(tiny.engine().pause({}, id_).ok());
    running->finished();
  }
  Status resume_in(TinyEngine& tiny) { return tiny.engine().resume({}, id_, 3, listener_); }

  std::string id_;
  const std::shared_ptr<RecordingListener> listener_ = std::make_shared<RecordingListener>();
};

TEST_F(PausedTurn, GoesOnWhereItsSessionHasStayed) {
  TinyEngine tiny;
  tiny.run(in_session("s", "first", 4));
  pause_in(tiny);
  ASSERT_TRUE(resume_in(tiny).ok());
  EXPECT_EQ(listener_->finished().at(0).last->reason, FinishReason::length);
  EXPECT_EQ(tiny.engine().sessions({})->at(0).turn, 2);
}

TEST_F(PausedTurn, DoesNotOverwriteALaterOne) {
  for (const bool from_store : {false, true}) {
    SCOPED_TRACE(from_store ? "in the store" : "in memory");
    EngineOptions options{.slots = 2, .prefill_chunk = 16};
    if (from_store) options.device_sessions = options.sessions.host_capacity = 0;
    TinyEngine tiny(options, 7, from_store ? *open_sqlite_store(database("paused")) : nullptr);
    tiny.run(in_session("s", "first", 4));
    pause_in(tiny);
    tiny.run(in_session("s", " later", 4));
    const Status resumed = resume_in(tiny);
    ASSERT_FALSE(resumed.ok());
    EXPECT_EQ(resumed.error().kind, ErrorKind::conflict);
    EXPECT_EQ(tiny.engine().sessions({})->at(0).turn, 2);
    EXPECT_EQ(tiny.run(in_session("s", " next", 2)).last->reason, FinishReason::length)
        << "its claim is free";
    EXPECT_EQ(*tiny.engine().erase_session({}, "s", false), 1);
  }
}

TEST_F(PausedTurn, DoesNotReviveAnErasedSession) {
  for (const bool and_used_again : {false, true}) {
    TinyEngine tiny;
    tiny.run(in_session("s", "first", 4));
    pause_in(tiny);
    EXPECT_EQ(*tiny.engine().erase_session({}, "s", false), 1);
    if (and_used_again) tiny.run(in_session("s", "another's", 4));
    const auto before = tiny.engine().sessions({});
    auto listener = std::make_shared<RecordingListener>();
    ASSERT_TRUE(tiny.engine().resume({}, id_, 3, listener).ok()) << "its text may go on";
    EXPECT_EQ(listener->finished().at(0).last->reason, FinishReason::length);
    const auto after = tiny.engine().sessions({});
    ASSERT_EQ(after->size(), before->size());
    if (and_used_again) {
      EXPECT_EQ(after->at(0).tokens, before->at(0).tokens);
    }
  }
}

// One engine takes the place of another on the same weights, which may still run rows.
class Successor : public ::testing::Test {
 protected:
  std::string alone(const std::string& text) { return bytes_of(reference_.run(fresh(text, 5))); }

  const EngineOptions options_{.slots = 4, .prefill_chunk = 16};
  TinyEngine reference_;
  TinyEngine old_{options_, nullptr};
  TinyEngine next_{options_, old_.ladder()};
};

TEST_F(Successor, GoesOnWithWhatTheOtherHasInItsDevice) {
  const std::string answer = bytes_of(old_.run(in_session("s", "one", 5)));
  const std::string second = bytes_of(next_.run(in_session("s", " two", 5)));
  EXPECT_EQ(second, alone("one" + answer + " two"));
  const std::string said = "one" + answer + " two" + second + " three";
  EXPECT_EQ(bytes_of(old_.run(in_session("s", " three", 5))), alone(said)) << "and back";
  Ask reader = in_session("s", " read", 5);
  reader.state.write_session.clear();
  EXPECT_EQ(bytes_of(next_.run(reader)), bytes_of(old_.run(reader)));
  EXPECT_EQ(next_.engine().sessions({})->size(), 1u);
  EXPECT_TRUE(next_.engine().export_session({}, "s").ok());
}

TEST_F(Successor, WaitsForATurnThatRunsOnTheOther) {
  Ask running = in_session("s", "one", 100000);
  running.state.keep_on_cancel = true;
  std::string id;
  const auto first = old_.submit({running}, &id);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  const auto second = next_.submit({in_session("s", " two", 5)});
  next_.run(fresh("somebody else", 3));
  EXPECT_TRUE(second->wait_until([](const auto& rows) { return rows.empty(); })) << "it waits";
  old_.engine().cancel({}, id);
  const std::string answer = bytes_of(first->finished().at(0));
  EXPECT_EQ(bytes_of(second->finished().at(0)), alone("one" + answer + " two"));
}

TEST_F(Successor, HasTheSessionsOfAnEngineThatHasEnded) {
  const std::string answer = bytes_of(old_.run(in_session("s", "one", 5)));
  old_.stop();
  EXPECT_EQ(bytes_of(next_.run(in_session("s", " two", 5))), alone("one" + answer + " two"));
}

TEST_F(Successor, ErasesWhatTheOtherWouldWrite) {
  std::string id;
  Ask running = in_session("s", "one", 100000);
  running.state.keep_on_cancel = true;
  const auto first = old_.submit({running}, &id);
  ASSERT_TRUE(first->wait_until([](const auto& rows) { return rows.contains(0) && rows.at(0).sampled > 3; }));
  EXPECT_EQ(*next_.engine().erase_session({}, "s", false), 1);
  EXPECT_EQ(bytes_of(next_.run(in_session("s", "anew", 5))), alone("anew")) << "nobody holds it any more";
  old_.engine().cancel({}, id);
  first->finished();
  EXPECT_EQ(next_.engine().sessions({})->at(0).tokens, 4 + 5);
}

TEST(SessionDatabases, AreOpenToOneServerAtATimeAndPrivate) {
  const auto path = database("locked");
  auto first = open_sqlite_store(path);
  ASSERT_TRUE(first.ok()) << first.error().text;
  const auto permissions = std::filesystem::status(path).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const auto second = open_sqlite_store(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::unavailable);
  EXPECT_NE(second.error().text.find("in use by another server"), std::string::npos) << second.error().text;
  first->reset();
  EXPECT_TRUE(open_sqlite_store(path).ok());
}

}  // namespace
}  // namespace fulmar
