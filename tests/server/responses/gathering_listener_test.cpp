// The end of a response in the background is told once, whatever fails on the way.
#include "server/responses/gathering_listener.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace fulmar {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const ResponseFacts> facts() {
  ResponseFacts facts;
  facts.id = "resp_1";
  facts.background = true;
  return std::make_shared<const ResponseFacts>(std::move(facts));
}

class FailingWriter : public ResponsesWriter {
 public:
  explicit FailingWriter(bool always) : ResponsesWriter(nullptr, facts()), always_(always) {}
  std::string write_whole(std::vector<Choice>, const Totals&) override { throw std::bad_alloc(); }
  std::string write_failure(const ApiError& error) override {
    if (always_) throw std::bad_alloc();
    return ResponsesWriter::write_failure(error);
  }

 private:
  const bool always_;
};

struct Told {
  int times = 0;
  std::optional<StoredResponse> answer;
  bool cut = false;
};

// What is told of rows that end with `reason`, twice, among other events.
Told told_of(std::unique_ptr<ResponsesWriter> writer, FinishReason reason) {
  Told told;
  const auto listener = gathering_listener(std::move(writer), std::nullopt, {},
                                           [&](std::optional<StoredResponse> answer, bool cut) {
                                             ++told.times;
                                             told.answer = std::move(answer);
                                             told.cut = cut;
                                           });
  const Event text{.kind = Event::Kind::text, .text = "hello"};
  const Event end{.kind = Event::Kind::finished, .reason = reason};
  listener->deliver({{.kind = Event::Kind::admitted}, text});
  EXPECT_EQ(told.times, 0);
  listener->deliver({text, end, end});
  listener->deliver({text, end});
  EXPECT_EQ(told.times, 1);
  return told;
}

TEST(GatheringListener, TellsTheEndOnce) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::length, FinishReason::cancelled,
                                    FinishReason::paused, FinishReason::stopping, FinishReason::failed}) {
    const Told told = told_of(std::make_unique<ResponsesWriter>(nullptr, facts()), reason);
    ASSERT_TRUE(told.answer);
    EXPECT_EQ(told.answer->id, "resp_1");
    EXPECT_EQ(told.cut, is_cut(reason));
  }
}

TEST(GatheringListener, EndsTheRowOfARemovedKey) {
  const auto account = std::make_shared<KeyAccount>(ApiKey{.name = "alice"}, KeyAccount::Clock::now());
  Told told;
  const auto listener = gathering_listener(std::make_unique<ResponsesWriter>(nullptr, facts()), std::nullopt,
                                           {.account = account, .rows = {}},
                                           [&](std::optional<StoredResponse> answer, bool cut) {
                                             ++told.times;
                                             told.answer = std::move(answer);
                                             told.cut = cut;
                                           });
  listener->deliver({{.kind = Event::Kind::text, .text = "hello"}});
  EXPECT_EQ(told.times, 0);
  account->revoke();
  listener->deliver({{.kind = Event::Kind::text, .text = "hello"}});
  listener->deliver({{.kind = Event::Kind::finished, .reason = FinishReason::cancelled}});
  EXPECT_EQ(told.times, 1);
  ASSERT_TRUE(told.answer);
  EXPECT_THAT(told.answer->json, HasSubstr("The key 'alice' is no longer in force"));
  EXPECT_TRUE(told.cut);
}

TEST(GatheringListener, TellsWhatCannotBeWrittenAsAFailure) {
  for (const FinishReason reason : {FinishReason::stop, FinishReason::cancelled}) {
    const Told told = told_of(std::make_unique<FailingWriter>(false), reason);
    ASSERT_TRUE(told.answer);
    EXPECT_THAT(told.answer->json, HasSubstr("the answer could not be written"));
    EXPECT_FALSE(told.cut);
    EXPECT_FALSE(told_of(std::make_unique<FailingWriter>(true), reason).answer);
  }
  EXPECT_FALSE(told_of(std::make_unique<FailingWriter>(true), FinishReason::failed).answer);
}

}  // namespace
}  // namespace fulmar
