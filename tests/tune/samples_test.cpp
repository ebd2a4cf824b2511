// Training data: each form of a line, what counts, what is cut and skipped, and errors that name the line.
#include "tune/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "text/byte_tokenizer.h"

namespace fulmar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Bytes, and an id that ends documents.
class EndedBytes final : public ByteTokenizer {
 public:
  std::optional<int32_t> eos() const override { return 256; }
};

class SamplesTest : public testing::Test {
 protected:
  Result<Samples> read(std::string_view lines, int64_t context = 1000, bool answers_only = true) {
    return read_samples(lines, {.tokenizer = *tokenizer_,
                                .prompt_template = world_template(),
                                .vocab = vocab_,
                                .context = context,
                                .answers_only = answers_only});
  }
  std::string error_of(std::string_view lines) {
    const Result<Samples> samples = read(lines);
    return samples.ok() ? "none" : samples.error().text;
  }
  // The text of the tokens, and that of the targets that count; the end token is '$'.
  std::string text_of(const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0) text += id == tokenizer_->eos() ? "$" : std::string(tokenizer_->bytes(id));
    }
    return text;
  }

  std::unique_ptr<Tokenizer> tokenizer_ = std::make_unique<EndedBytes>();
  int64_t vocab_ = 300;
};

TEST_F(SamplesTest, CountAsTheirFormSays) {
  struct Form {
    const char *line, *tokens, *counted;
  };
  for (const Form& form : {
           Form{R"({"text":"abc"})", "abc", "bc$"},
           Form{R"({"prompt":"ab:","completion":" cd"})", "ab: cd", " cd$"},
           Form{R"({"prompt":"ab:","answer":" cd"})", "ab: cd", " cd$"},
           Form{R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Yes"}]})",
                "User: Hi\n\nAssistant: Yes", " Yes$"},
           Form{R"({"messages":[{"role":"user","content":"A"},{"role":"assistant","content":"B"},)"
                R"({"role":"user","content":"C"},{"role":"assistant","content":"D"}]})",
                "User: A\n\nAssistant: B\n\nUser: C\n\nAssistant: D", " B D$"},
       }) {
    const Result<Samples> samples = read(form.line);
    ASSERT_TRUE(samples.ok()) << samples.error().text;
    ASSERT_EQ(samples->samples.size(), 1u);
    EXPECT_EQ(text_of(samples->samples[0].tokens), form.tokens);
    EXPECT_EQ(text_of(samples->samples[0].targets), form.counted);
    const Result<Samples> whole = read(form.line, 1000, false);
    EXPECT_EQ(text_of(whole->samples[0].targets), std::string(form.tokens).substr(1) + "$");
  }
}

TEST_F(SamplesTest, AreCutToTheContextOrSkipped) {
  const Result<Samples> samples = read(
      "{\"text\":\"abcdef\"}\n\n{\"prompt\":\"abcdef\",\"completion\":\"g\"}\n"
      "{\"text\":\"ab\"}\n  \n",
      3);
  ASSERT_TRUE(samples.ok());
  EXPECT_EQ(samples->samples.size(), 2u);
  EXPECT_EQ(text_of(samples->samples[0].targets), "bcd");
  EXPECT_EQ(text_of(samples->samples[1].targets), "b$");
  EXPECT_EQ(samples->cut, 1);
  EXPECT_EQ(samples->skipped, 1) << "no target of the second line lies within the context";
}

TEST_F(SamplesTest, ErrorsNameTheLineAndTheMember) {
  const std::string good = "{\"text\":\"abc\"}\n";
  struct Bad {
    const char *line, *wanted;
  };
  for (const Bad& bad : {
           Bad{"{\"text\":", "Invalid JSON"},
           {"[1]", "wanted an object"},
           {"{}", "wanted one of them"},
           {R"({"text":1})", "'text' is number 1; wanted a string"},
           {R"({"text":"a","meta":1})", "'meta' has no effect beside 'text'"},
           {R"({"prompt":"a"})", "'answer' is missing"},
           {R"({"prompt":"a","completion":"b","answer":"c"})", "'answer' has no effect beside 'prompt'"},
           {R"({"messages":[]})", "wanted an array of 1 to"},
           {R"({"messages":[{"role":"user","content":"a"}]})", "nothing that the assistant says"},
           {R"({"messages":[{"role":"user","content":"a","name":"b"}]})", "'name' has no effect"},
           {R"({"messages":[{"role":"user"}]})", "'content' is missing"},
       }) {
    EXPECT_THAT(error_of(good + "\n" + bad.line + "\n"),
                testing::AllOf(testing::StartsWith("line 3: "), HasSubstr(bad.wanted)));
  }
  EXPECT_THAT(error_of(""), HasSubstr("no sample to train with"));
  vocab_ = 50;
  EXPECT_THAT(error_of(good), HasSubstr("beyond the model's vocabulary of 50"));
}

TEST(SampleOrder, TakesEachSampleOnceAnEpochInAnOrderOfTheSeed) {
  for (const int64_t batch : {1, 3, 7, 20}) {
    const int64_t steps = steps_of_epoch(7, batch);
    std::vector<std::vector<int64_t>> epochs;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
      std::vector<int64_t>& order = epochs.emplace_back();
      for (int64_t step = epoch * steps; step < (epoch + 1) * steps; step++) {
        const std::vector<int64_t> some = samples_of_step(step, 7, batch, 5);
        EXPECT_LE(static_cast<int64_t>(some.size()), batch);
        order.insert(order.end(), some.begin(), some.end());
      }
      EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 7u);
      EXPECT_EQ(order.size(), 7u);
    }
    EXPECT_NE(epochs[0], epochs[1]);
  }
  EXPECT_NE(samples_of_step(0, 7, 7, 1), samples_of_step(0, 7, 7, 2));
}

TEST(SampleOrder, BatchesArePackedSequences) {
  Samples samples;
  samples.samples = {{{1, 2}, {2, 3}}, {{4}, {5}}};
  const TuneBatch batch = batch_of(samples, {1, 0});
  EXPECT_THAT(batch.bounds, ElementsAre(0, 1, 3));
  EXPECT_THAT(batch.tokens, ElementsAre(4, 1, 2));
  EXPECT_THAT(batch.targets, ElementsAre(5, 2, 3));
}

}  // namespace
}  // namespace fulmar
