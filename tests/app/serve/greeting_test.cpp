// What a server says at its start, for each way of being locked.
#include "app/serve/greeting.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

Greeting served() {
  Greeting facts{.version = "1.2.3", .address = "127.0.0.1:8000", .model = "tiny"};
  facts.footing = {"cpu (AVX2, 4 threads)",
                   "RWKV-7, 0.1 billion parameters, f16",
                   size_t{200} << 20,
                   size_t{50} << 20,
                   size_t{1} << 20,
                   10,
                   5};
  facts.io_threads = 2;
  facts.sessions = "rwkv_sessions.db";
  return facts;
}

bool says(const Greeting& facts, const std::string& words) {
  return greeting(facts).find(words) != std::string::npos;
}

TEST(Greeting, TellsAddressModelMemoryAndThreads) {
  const Greeting facts = served();
  EXPECT_TRUE(greeting(facts).starts_with("Fulmar 1.2.3 serves tiny on http://127.0.0.1:8000/\n"));
  EXPECT_TRUE(says(facts, "RWKV-7, 0.1 billion parameters, f16"));
  EXPECT_TRUE(says(facts, "cpu (AVX2, 4 threads), 2 threads for HTTP"));
  EXPECT_TRUE(says(
      facts,
      "weights 200 MiB, workspace 50 MiB, 10 slots and 5 for sessions and prompts, 1024 KiB each: 265 MiB"));
  EXPECT_TRUE(says(facts, "rwkv_sessions.db"));
  EXPECT_TRUE(says(facts, "open the page:  http://127.0.0.1:8000/\n"));
  EXPECT_TRUE(greeting(facts).ends_with("\n\n"));
}

TEST(Greeting, ThePageIsAtAnAddressThatABrowserOpens) {
  Greeting facts = served();
  facts.address = "0.0.0.0:8000";
  EXPECT_TRUE(says(facts, "serves tiny on http://0.0.0.0:8000/\n"));
  EXPECT_TRUE(says(facts, "open the page:  http://127.0.0.1:8000/\n"));
  EXPECT_TRUE(says(facts, "curl -s http://127.0.0.1:8000/v1/"));
  facts.address = "[::]:8000";
  EXPECT_TRUE(says(facts, "open the page:  http://[::1]:8000/\n"));
}

TEST(Greeting, TellsWhoMayAsk) {
  Greeting facts = served();
  EXPECT_TRUE(says(facts, "none: every program of this machine"));
  EXPECT_FALSE(says(facts, "Bearer"));
  facts.open_to_others = true;
  EXPECT_TRUE(says(facts, "NONE: whoever reaches"));
  facts.password = true;
  EXPECT_TRUE(says(facts, "a password\n"));
  EXPECT_TRUE(says(facts, "Bearer KEY"));
  EXPECT_TRUE(says(facts, "--open translate"));
  facts.keys_file = "/etc/keys.json";
  facts.open_translate = true;
  EXPECT_TRUE(says(facts, "a password and the keys of /etc/keys.json"));
  EXPECT_FALSE(says(facts, "--open translate"));
}

TEST(Greeting, SaysHowAModelComesWhereThereIsNone) {
  Greeting facts = served();
  facts.model.clear();
  facts.sessions.clear();
  EXPECT_TRUE(says(facts, "serves no model yet"));
  EXPECT_TRUE(says(facts, "POST /loadmodel"));
  EXPECT_TRUE(says(facts, "they go with the server"));
  EXPECT_FALSE(says(facts, "curl"));
}

}  // namespace
}  // namespace fulmar
