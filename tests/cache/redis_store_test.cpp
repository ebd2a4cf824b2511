// Sessions and worker records in a real Redis server on a port of its own.
#include "cache/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cache/session_name.h"
#include "cache/worker_directory.h"

namespace fulmar {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPassword = "s3cret";

// A port that nobody listens on or connects from just now.
uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(socket);
  return ntohs(address.sin_port);
}

// A redis-server that forgets everything when the test ends.
class RedisTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v redis-server > /dev/null 2>&1") != 0) {
      GTEST_SKIP() << "redis-server is not installed";
    }
    address_.port = free_port();
    address_.password = kPassword;
    begin();
  }
  void TearDown() override { end(); }

  void begin() {
    server_ = ::fork();
    if (server_ == 0) {
      [[maybe_unused]] const FILE* quiet = ::freopen("/dev/null", "w", stdout);
      std::vector<std::string> words{"redis-server",
                                     address_.encrypted ? "--tls-port" : "--port",
                                     std::to_string(address_.port),
                                     "--bind",
                                     "127.0.0.1",
                                     "--save",
                                     "",
                                     "--appendonly",
                                     "no",
                                     "--requirepass",
                                     kPassword,
                                     "--dir",
                                     testing::TempDir()};
      words.insert(words.end(), more_flags_.begin(), more_flags_.end());
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp("redis-server", arguments.data());
      ::_exit(127);
    }
    for (int i = 0; i < 500 && !check_redis(address_).ok(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
    ASSERT_TRUE(check_redis(address_).ok());
  }
  void end() {
    if (server_ <= 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    server_ = -1;
  }

  std::unique_ptr<SessionStore> open(milliseconds time_to_live = milliseconds(0)) {
    return redis_store({.address = address_, .time_to_live = time_to_live});
  }

  RedisAddress address_;
  std::vector<std::string> more_flags_;
  pid_t server_ = -1;
};

SessionWrite write(const std::string& id, int64_t turn, const std::string& model = "model", char fill = 'x') {
  auto blob = std::make_shared<StateBlob>();
  blob->fingerprint = model;
  blob->turn = turn;
  blob->tokens = turn * 10;
  blob->layout = {.n_layer = 1, .n_embd = 4, .n_head = 1, .head_size = 4, .fields = kShiftsAndWkv};
  blob->payload.assign(blob->layout.slot_bytes(), static_cast<std::byte>(fill));
  return {id, blob, session_name(id).owner};
}

// The ids of the writes that were refused, or the first failure.
Result<std::vector<std::string>> put(SessionStore& store, const std::vector<SessionWrite>& writes) {
  const auto outcomes = store.store(writes);
  std::vector<std::string> refused;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (!outcomes[i].ok()) return outcomes[i].error();
    if (!*outcomes[i]) refused.push_back(writes[i].id);
  }
  return refused;
}

std::vector<std::string> ids(SessionStore& store) {
  std::vector<std::string> found;
  const auto sessions = store.list("model", {});
  EXPECT_TRUE(sessions.ok());
  for (const auto& session : *sessions) found.push_back(session.id);
  return found;
}

TEST_F(RedisTest, GivesBackWhatWasStored) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("a", 1), write("b\n:*", 2)}).ok());
  const auto loaded = store->load("model", "b\n:*");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->turn, 2);
  EXPECT_EQ((*loaded)->tokens, 20);
  EXPECT_FALSE(store->load("model", "c")->has_value());
  EXPECT_FALSE(store->load("other", "a")->has_value());
  EXPECT_THAT(ids(*store), testing::UnorderedElementsAre("a", "b\n:*"));
  EXPECT_TRUE(store->list("other", {})->empty());
}

TEST_F(RedisTest, ALateWorkerNeverReplacesANewerTurn) {
  const auto one = open(), other = open();
  EXPECT_THAT(*put(*one, {write("s", 5)}), testing::IsEmpty());
  EXPECT_THAT(*put(*other, {write("s", 4), write("t", 1)}), ElementsAre("s"));
  EXPECT_THAT(*put(*other, {write("s", 5, "model", 'y')}), ElementsAre("s")) << "nor the same one";
  EXPECT_EQ((*one->load("model", "s"))->turn, 5);
  EXPECT_EQ((*one->load("model", "s"))->payload[0], std::byte{'x'});
  EXPECT_THAT(*put(*one, {write("s", 5)}), testing::IsEmpty()) << "its own turn, sent again, is there";
  ASSERT_TRUE(put(*other, {write("s", 6)}).ok());
  EXPECT_EQ((*one->load("model", "s"))->turn, 6);
  EXPECT_TRUE(one->shared());
  EXPECT_EQ(*one->newest_turn("model", "s"), 6);
  EXPECT_EQ(*one->newest_turn("model", "none"), 0);
}

TEST_F(RedisTest, ErasesWithAndWithoutBranches) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("a", 1), write("a:1", 1), write("ab", 1), write("a:2", 1)}).ok());
  EXPECT_EQ(*store->erase("model", "a:2", false), 1);
  EXPECT_EQ(*store->erase("model", "a", true), 2);
  EXPECT_EQ(*store->erase("model", "a", true), 0);
  EXPECT_THAT(ids(*store), ElementsAre("ab"));
}

TEST_F(RedisTest, SessionsExpire) {
  const auto store = open(milliseconds(50));
  ASSERT_TRUE(put(*store, {write("a", 1)}).ok());
  for (int i = 0; i < 500 && !ids(*store).empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(ids(*store).empty());
  EXPECT_FALSE(store->load("model", "a")->has_value());
}

TEST_F(RedisTest, ALostServerIsAnErrorAndComesBack) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("a", 1)}).ok());
  end();
  const auto failed = put(*store, {write("a", 2)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
  EXPECT_FALSE(store->load("model", "a").ok());
  begin();
  bool stored = false;
  for (int i = 0; i < 500 && !stored; ++i) {
    stored = put(*store, {write("a", 2)}).ok();
    std::this_thread::sleep_for(milliseconds(10));
  }
  ASSERT_TRUE(stored);
  EXPECT_EQ((*store->load("model", "a"))->turn, 2);
}

TEST_F(RedisTest, RefusesDamagedStatesAndWrongPasswords) {
  const auto store = open();
  RedisLink link(address_);
  ASSERT_TRUE(link.call({"HSET", "fulmar:{model}:session:bad", "state", "rubbish"}).ok());
  EXPECT_EQ(store->load("model", "bad").error().kind, ErrorKind::corrupt);
  RedisAddress wrong = address_;
  wrong.password = "wrong";
  EXPECT_FALSE(check_redis(wrong).ok());
  EXPECT_TRUE(check_redis(address_).ok());
}

TEST_F(RedisTest, AKeyThatCannotBeWrittenFailsAlone) {
  const auto store = open();
  RedisLink link(address_);
  ASSERT_TRUE(link.call({"SET", "fulmar:{model}:session:b", "of another kind"}).ok());
  const auto outcomes = store->store({write("a", 1), write("b", 1), write("c", 1)});
  ASSERT_EQ(outcomes.size(), 3u);
  EXPECT_TRUE(outcomes[0].ok() && *outcomes[0]);
  EXPECT_THAT(outcomes[1].error().text, testing::AllOf(HasSubstr("'b'"), HasSubstr("WRONGTYPE")));
  EXPECT_TRUE(outcomes[2].ok() && *outcomes[2]);
}

TEST_F(RedisTest, ANewerSchemaIsRefusedByName) {
  ASSERT_TRUE(open()->load("model", "a").ok());
  RedisLink link(address_);
  ASSERT_EQ(link.call({"HGET", "fulmar:sessions", "schema"})->text, "1");
  ASSERT_TRUE(link.call({"HSET", "fulmar:sessions", "schema", "2"}).ok());
  EXPECT_EQ(check_redis(address_).error().kind, ErrorKind::unsupported);
  const auto store = open();
  EXPECT_THAT(put(*store, {write("a", 1)}).error().text, HasSubstr("schema 2 found, at most 1 wanted"));
  EXPECT_FALSE(store->load("model", "a").ok());
  EXPECT_EQ(link.call({"EXISTS", "fulmar:{model}:session:a"})->integer, 0);
}

SessionWrite large_write(const std::string& id) {
  SessionWrite one = write(id, 1);
  auto blob = std::make_shared<StateBlob>(*one.blob);
  blob->layout = {.n_layer = 1, .n_embd = 16, .n_head = 1, .head_size = 16, .fields = kShiftsAndWkv};
  blob->payload.resize(blob->layout.slot_bytes());
  one.blob = blob;
  return one;
}

TEST_F(RedisTest, BeyondTheBoundWhoHasMostGivesUpOnesOwn) {
  const auto store = redis_store({.address = address_, .most_bytes = 5'000});
  ASSERT_TRUE(put(*store, {large_write("plain"), large_write(session_text("bob", "b"))}).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(put(*store, {large_write(session_text("alice", std::to_string(i)))}).ok());
    ASSERT_TRUE(store->sweep("model").ok());
  }
  std::vector<std::string> kept = ids(*store);
  EXPECT_THAT(kept, testing::IsSupersetOf(
                        {std::string("plain"), session_text("bob", "b"), session_text("alice", "19")}));
  EXPECT_THAT(kept, testing::Not(testing::Contains(session_text("alice", "0"))));
}

// The server names the state after a stored response by itself; it is kept on the account of whose that is.
TEST_F(RedisTest, WhatTheServerNamesCountsToItsOwner) {
  const auto store = redis_store({.address = address_, .most_bytes = 5'000});
  const auto write_for = [](const std::string& owner, const std::string& id) {
    SessionWrite one = large_write(id);
    one.owner = owner;
    return one;
  };
  ASSERT_TRUE(put(*store, {write_for("bob", "resp:his")}).ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(put(*store, {write_for("alice", "resp:" + std::to_string(i))}).ok());
    ASSERT_TRUE(store->sweep("model").ok());
  }
  EXPECT_THAT(ids(*store), testing::IsSupersetOf({"resp:his", "resp:19"}));
}

TEST_F(RedisTest, KeepsToItsBoundInBytes) {
  const auto store = redis_store({.address = address_, .most_bytes = 5'000});
  for (char c = 'a'; c <= 'h'; ++c) ASSERT_TRUE(put(*store, {large_write(std::string(1, c))}).ok());
  const auto gone = store->sweep("model");
  ASSERT_TRUE(gone.ok()) << gone.error().text;
  ASSERT_FALSE(gone->empty());
  EXPECT_EQ(gone->front().id, "a") << "the oldest first";
  const auto kept = store->list("model", {});
  ASSERT_FALSE(kept->empty());
  EXPECT_EQ(kept->back().id, "h");
  EXPECT_EQ(gone->size() + kept->size(), 8u);
  EXPECT_TRUE(store->sweep("model")->empty());
}

TEST_F(RedisTest, ListsByPages) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("b", 1), write("a:2", 1), write("a:1", 1), write("a", 1)}).ok());
  const auto page = store->list("model", {.prefix = "a:", .after = "a:1", .limit = 1});
  ASSERT_EQ(page->size(), 1u);
  EXPECT_EQ(page->front().id, "a:2");
  EXPECT_THAT(ids(*store), ElementsAre("a", "a:1", "a:2", "b"));
}

TEST_F(RedisTest, WorkersAreListedWhileTheyRenew) {
  const auto directory = redis_directory(address_);
  const WorkerRecord one{.name = "w1", .host = "10.0.0.1", .port = 8000, .model = "m"};
  WorkerRecord two{.name = "w2", .host = "10.0.0.2", .port = 8001, .model = "m"};
  ASSERT_TRUE(directory->announce(two, milliseconds(60'000)).ok());
  ASSERT_TRUE(directory->announce(one, milliseconds(60'000)).ok());
  EXPECT_THAT(*directory->workers(), ElementsAre(one, two));
  two.draining = true;
  ASSERT_TRUE(directory->announce(two, milliseconds(60'000)).ok());
  ASSERT_TRUE(directory->withdraw("w1").ok());
  EXPECT_THAT(*directory->workers(), ElementsAre(two));
  ASSERT_TRUE(directory->announce(two, milliseconds(20)).ok());
  for (int i = 0; i < 500 && !directory->workers()->empty(); ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(directory->workers()->empty());
}

TEST_F(RedisTest, AClosedConnectionIsOpenedAgainUnnoticed) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("a", 1)}).ok());
  RedisLink other(address_);
  ASSERT_TRUE(other.call({"CLIENT", "KILL", "TYPE", "normal"}).ok());
  EXPECT_TRUE(put(*store, {write("a", 2)}).ok());
  EXPECT_EQ(*store->newest_turn("model", "a"), 2);
}

TEST_F(RedisTest, StatesOfAnySizeArriveWhole) {
  const auto store = open();
  SessionWrite large = write("large", 1);
  auto blob = std::make_shared<StateBlob>(*large.blob);
  blob->layout = {.n_layer = 24, .n_embd = 2048, .n_head = 32, .head_size = 64, .fields = kShiftsAndWkv};
  blob->payload.resize(blob->layout.slot_bytes());
  uint32_t noise = 1;
  for (std::byte& byte : blob->payload)
    byte = static_cast<std::byte>((noise = noise * 1664525 + 1013904223) >> 24);
  large.blob = blob;
  ASSERT_TRUE(put(*store, {large, write("small", 1)}).ok());
  const auto loaded = open()->load("model", "large");
  ASSERT_TRUE(loaded.ok() && loaded->has_value());
  EXPECT_EQ((*loaded)->payload, blob->payload);
}

// A server that speaks TLS only, with a certificate for "localhost" by an authority of our own.
class EncryptedRedisTest : public RedisTest {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);  // as the program does
    folder_ = std::filesystem::path(testing::TempDir()) / ("fulmar_tls_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    const std::string make =
        "cd " + folder_.string() +
        " && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.crt -subj /CN=ca"
        " && openssl req -newkey rsa:2048 -nodes -keyout key -out csr -subj /CN=localhost"
        " && echo subjectAltName=DNS:localhost > names"
        " && openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out "
        "crt";
    if (std::system(("(" + make + ") > /dev/null 2>&1").c_str()) != 0) {
      GTEST_SKIP() << "no openssl program to make certificates with";
    }
    address_.encrypted = true;
    address_.host = "localhost";
    address_.tls = {file("ca.crt"), file("crt"), file("key")};
    more_flags_ = {"--port",         "0",         "--tls-cert-file",    file("crt"),
                   "--tls-key-file", file("key"), "--tls-ca-cert-file", file("ca.crt")};
    RedisTest::SetUp();
  }
  void TearDown() override {
    RedisTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_;
};

TEST_F(EncryptedRedisTest, StoresAndGivesBack) {
  const auto store = open();
  ASSERT_TRUE(put(*store, {write("a", 1), write("b", 2)}).ok());
  EXPECT_EQ((*store->load("model", "b"))->turn, 2);
  RedisLink other(address_);
  ASSERT_TRUE(other.call({"CLIENT", "KILL", "TYPE", "normal"}).ok());
  EXPECT_TRUE(put(*store, {write("a", 2)}).ok()) << "over a fresh connection";
}

TEST_F(EncryptedRedisTest, RefusesServersThatCannotProveThemselves) {
  RedisAddress address = address_;
  address.tls.authorities.clear();
  EXPECT_THAT(check_redis(address).error().text, HasSubstr("certificate"));
  address = address_;
  address.host = "127.0.0.1";
  EXPECT_THAT(check_redis(address).error().text, HasSubstr("mismatch"));
  address = address_;
  address.tls.certificate = address.tls.key = "";
  EXPECT_FALSE(check_redis(address).ok()) << "this server wants to see a certificate";
  address.tls.authorities = "/nowhere";
  EXPECT_THAT(check_redis(address).error().text, HasSubstr("/nowhere"));
  address = address_;
  address.encrypted = false;
  EXPECT_FALSE(check_redis(address).ok()) << "and to be spoken to in TLS";
}

// At once, whether or not a server answers there.
TEST_F(EncryptedRedisTest, FilesThatCannotBeUsedAreTold) {
  const std::string host = "rediss://127.0.0.1:1?", own = "&cert=" + file("crt") + "&key=";
  EXPECT_TRUE(usable_redis_address(host + "cacert=" + file("ca.crt") + own + file("key")).ok());
  EXPECT_TRUE(usable_redis_address("redis://127.0.0.1:1").ok());
  const std::string wrong[] = {"cacert=/nowhere", "cacert=" + file("key"),
                               "cacert=" + file("ca.crt") + "&cert=/nowhere&key=" + file("key"),
                               "cacert=" + file("ca.crt") + own + file("ca.key")};
  for (const std::string& files : wrong) {
    const auto address = usable_redis_address(host + files);
    ASSERT_FALSE(address.ok()) << files;
    EXPECT_EQ(address.error().kind, ErrorKind::io);
    EXPECT_THAT(address.error().text, HasSubstr("TLS: ")) << files;
  }
}

TEST(RedisUrl, IsTakenApart) {
  const auto address = parse_redis_url("redis://me:a%40b@host.example:7000/3");
  ASSERT_TRUE(address.ok());
  EXPECT_EQ(address->host, "host.example");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->user, "me");
  EXPECT_EQ(address->password, "a@b");
  EXPECT_EQ(address->database, 3);
  EXPECT_EQ(parse_redis_url("redis://h")->port, 6379);
  EXPECT_EQ(parse_redis_url("redis://:p@h/")->password, "p");
  EXPECT_EQ(parse_redis_url("redis://[::1]:7000")->host, "::1");
  EXPECT_EQ(parse_redis_url("redis://[::1]:7000")->port, 7000);
  for (const char* bad :
       {"http://h", "redis://", "redis://h:x", "redis://h:0", "redis://h/x", "redis://p@h", "redis://[::1",
        "redis://h?cacert=f", "rediss://h?other=f", "rediss://h?cert=f", "rediss://"}) {
    EXPECT_FALSE(parse_redis_url(bad).ok()) << bad;
  }
  const auto encrypted = parse_redis_url("rediss://h/2?cacert=/a%20b&cert=c&key=k");
  ASSERT_TRUE(encrypted.ok()) << encrypted.error().text;
  EXPECT_TRUE(encrypted->encrypted);
  EXPECT_EQ(encrypted->database, 2);
  EXPECT_EQ(encrypted->tls.authorities, "/a b");
  EXPECT_EQ(encrypted->tls.certificate, "c");
  EXPECT_EQ(encrypted->tls.key, "k");
  EXPECT_THAT(parse_redis_url("redis://:secret@h:x").error().text, testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace fulmar
