// Compiled constraints are each owner's own: what one has compiled neither saves another's time nor pushes
// out what another has compiled.
#include "server/generate/constraint_cache.h"

#include <gtest/gtest.h>

#include "server/generate/answer_rules.h"
#include "server/generating_routes.h"
#include "server/server_rig.h"

namespace fulmar::testing {
namespace {

CompiledRules compiled_for(const ServedModelPtr& model) {
  AnswerConstraints compiler;
  AnswerRules rules;
  rules.json_object = true;
  return *compiler.find("compiler", model, AnswerStart::plain, rules);
}

TEST(ConstraintCache, OneOwnersFloodPushesOutItsOwnAlone) {
  ServerRig rig;
  const CompiledRules compiled = compiled_for(rig.model);
  ConstraintCache cache;
  cache.keep("a", rig.model, "k", compiled);
  EXPECT_TRUE(cache.find("a", rig.model, "k"));
  EXPECT_FALSE(cache.find("b", rig.model, "k"));
  EXPECT_FALSE(cache.find("", rig.model, "k"));
  const size_t most = ConstraintCache::kOfOne.entries;
  for (size_t i = 0; i < 3 * most; ++i) cache.keep("b", rig.model, std::to_string(i), compiled);
  EXPECT_TRUE(cache.find("a", rig.model, "k")) << "another owner has pushed it out";
  EXPECT_FALSE(cache.find("b", rig.model, std::to_string(2 * most - 1)));
  EXPECT_TRUE(cache.find("b", rig.model, std::to_string(2 * most)));
  EXPECT_EQ(cache.held().entries, most + 1);
}

TEST(ConstraintCache, BytesHaveBoundsAndTheLargestOwnerPays) {
  ServerRig rig;
  const CompiledRules compiled = compiled_for(rig.model);
  const size_t large = 3 * compiled.constraint->bytes();
  const ConstraintCache::Bound of_one{100, 5 * large}, of_all{100, 12 * large};
  ConstraintCache cache(of_one, of_all);
  cache.keep("small", rig.model, "k", compiled);
  for (char owner = 'a'; owner < 'm'; ++owner) {
    const size_t before = cache.held().bytes;
    for (char key = '0'; key < '8'; ++key) {
      cache.keep({owner}, rig.model, std::string(large, key), compiled);
      EXPECT_LE(cache.held().bytes, std::min(before + of_one.bytes, of_all.bytes));
    }
    EXPECT_TRUE(cache.find({owner}, rig.model, std::string(large, '7')));
  }
  EXPECT_TRUE(cache.find("small", rig.model, "k")) << "others have pushed it out";
}

TEST(ConstraintCache, EntriesOfAllOwnersHaveABound) {
  ServerRig rig;
  const CompiledRules compiled = compiled_for(rig.model);
  ConstraintCache cache({4, size_t{1} << 30}, {10, size_t{1} << 30});
  cache.keep("small", rig.model, "k", compiled);
  for (char owner = 'a'; owner < 'j'; ++owner) {
    for (char key = '0'; key < '4'; ++key) cache.keep({owner}, rig.model, {key}, compiled);
    EXPECT_LE(cache.held().entries, 10u);
    EXPECT_TRUE(cache.find({owner}, rig.model, "3"));
  }
  EXPECT_TRUE(cache.find("small", rig.model, "k"));
}

TEST(ConstraintCache, WhatAConstraintHoldsGrowsWithItsUse) {
  ServerRig rig;
  const CompiledRules compiled = compiled_for(rig.model);
  const size_t fresh = compiled.constraint->bytes();
  size_t work = 0;
  compiled.constraint->allowed(0, work);
  EXPECT_GE(compiled.constraint->bytes(), fresh + rig.tokenizer.vocabulary_size() / 8);
}

TEST(ConstraintCache, NothingIsKeptForThoseWithoutAKey) {
  ServerRig rig;
  ConstraintCache cache;
  cache.keep(std::string(kNobody), rig.model, "k", compiled_for(rig.model));
  EXPECT_FALSE(cache.find(std::string(kNobody), rig.model, "k"));
}

ServerOptions with_two_keys(bool share) {
  ServerOptions options;
  options.share_prefixes = share;
  options.api_keys.emplace();
  for (const std::string name : {"alice", "bob"}) {
    ApiKey key;
    key.name = name;
    key.hash = hash_of_key(name);
    key.routes = {"/*"};
    options.api_keys->push_back(std::move(key));
  }
  return options;
}

// A mask that one request has made is at hand for those that have the same constraint.
TEST(ConstraintCache, OnEveryRouteAnswersAreOfTheirOwner) {
  for (const bool share : {false, true}) {
    ServerRig rig(with_two_keys(share));
    int64_t number = 0;
    for (const auto& [path, body] : kBodies) {
      const auto mask_of = [&](const char* name) {
        const std::string schema = R"({"const":)" + std::to_string(number) + "}";
        const Reply reply = rig.post(std::string(path), body + R"(,"guided_json":)" + schema + "}",
                                     header("Authorization", "Bearer " + std::string(name)));
        EXPECT_EQ(reply.status, 200) << path << reply.body;
        return rig.last_ask().mask;
      };
      ++number;
      const auto hers = mask_of("alice");
      EXPECT_FALSE(hers->ready()) << path;
      hers->prepare();
      EXPECT_TRUE(mask_of("alice")->ready()) << path;
      EXPECT_EQ(mask_of("bob")->ready(), share) << path;
    }
  }
}

}  // namespace
}  // namespace fulmar::testing
