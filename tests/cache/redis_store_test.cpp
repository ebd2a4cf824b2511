// Sessions and worker records in a real Redis server on a port of its own.
#include "cache/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

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
      const std::string port = std::to_string(address_.port);
      [[maybe_unused]] const FILE* quiet = ::freopen("/dev/null", "w", stdout);
      ::execlp("redis-server", "redis-server", "--port", port.c_str(), "--bind", "127.0.0.1", "--save", "",
               "--appendonly", "no", "--requirepass", kPassword, "--dir", testing::TempDir().c_str(),
               nullptr);
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
  pid_t server_ = -1;
};

SessionWrite write(const std::string& id, int64_t turn, const std::string& model = "model", char fill = 'x') {
  auto blob = std::make_shared<StateBlob>();
  blob->fingerprint = model;
  blob->turn = turn;
  blob->tokens = turn * 10;
  blob->layout = {.n_layer = 1, .n_embd = 4, .n_head = 1, .head_size = 4};
  blob->payload.assign(blob->layout.slot_bytes(), static_cast<std::byte>(fill));
  return {id, blob};
}

std::vector<std::string> ids(SessionStore& store) {
  std::vector<std::string> found;
  const auto sessions = store.list("model");
  EXPECT_TRUE(sessions.ok());
  for (const auto& session : *sessions) found.push_back(session.id);
  return found;
}

TEST_F(RedisTest, GivesBackWhatWasStored) {
  const auto store = open();
  ASSERT_TRUE(store->store({write("a", 1), write("b\n:*", 2)}).ok());
  const auto loaded = store->load("model", "b\n:*");
  ASSERT_TRUE(loaded.ok()) << loaded.error().text;
  ASSERT_TRUE(loaded->has_value());
  EXPECT_EQ((*loaded)->turn, 2);
  EXPECT_EQ((*loaded)->tokens, 20);
  EXPECT_FALSE(store->load("model", "c")->has_value());
  EXPECT_FALSE(store->load("other", "a")->has_value());
  EXPECT_THAT(ids(*store), testing::UnorderedElementsAre("a", "b\n:*"));
  EXPECT_TRUE(store->list("other")->empty());
}

TEST_F(RedisTest, ALateWorkerNeverReplacesANewerTurn) {
  const auto one = open(), other = open();
  ASSERT_TRUE(one->store({write("s", 5)}).ok());
  ASSERT_TRUE(other->store({write("s", 4)}).ok());
  EXPECT_EQ((*one->load("model", "s"))->turn, 5);
  ASSERT_TRUE(other->store({write("s", 6)}).ok());
  EXPECT_EQ((*one->load("model", "s"))->turn, 6);
  EXPECT_TRUE(one->shared());
  EXPECT_EQ(*one->newest_turn("model", "s"), 6);
  EXPECT_EQ(*one->newest_turn("model", "none"), 0);
}

TEST_F(RedisTest, ErasesWithAndWithoutBranches) {
  const auto store = open();
  ASSERT_TRUE(store->store({write("a", 1), write("a:1", 1), write("ab", 1), write("a:2", 1)}).ok());
  EXPECT_EQ(*store->erase("model", "a:2", false), 1);
  EXPECT_EQ(*store->erase("model", "a", true), 2);
  EXPECT_EQ(*store->erase("model", "a", true), 0);
  EXPECT_THAT(ids(*store), ElementsAre("ab"));
}

TEST_F(RedisTest, SessionsExpire) {
  const auto store = open(milliseconds(50));
  ASSERT_TRUE(store->store({write("a", 1)}).ok());
  for (int i = 0; i < 500 && !ids(*store).empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(ids(*store).empty());
  EXPECT_FALSE(store->load("model", "a")->has_value());
}

TEST_F(RedisTest, ALostServerIsAnErrorAndComesBack) {
  const auto store = open();
  ASSERT_TRUE(store->store({write("a", 1)}).ok());
  end();
  const Status failed = store->store({write("a", 2)});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
  EXPECT_FALSE(store->load("model", "a").ok());
  begin();
  bool stored = false;
  for (int i = 0; i < 500 && !stored; ++i) {
    stored = store->store({write("a", 2)}).ok();
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
  for (const char* bad :
       {"http://h", "redis://", "redis://h:x", "redis://h:0", "redis://h/x", "redis://p@h", "rediss://h"}) {
    EXPECT_FALSE(parse_redis_url(bad).ok()) << bad;
  }
  EXPECT_THAT(parse_redis_url("redis://:secret@h:x").error().text, testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace fulmar
