// Stop texts in the output, and texts from which on they count no more.
#include "engine/output_text.h"

#include <gtest/gtest.h>

#include "support/tiny_engine.h"

namespace fulmar {
namespace {

using testing::RecordingListener;
using testing::TinyEngine;

OutputText output_of(const std::vector<std::string>& stops, std::vector<std::string> until) {
  return OutputText(std::make_shared<const StopTexts>(stops), false, false, std::move(until));
}

// What is shown of a text that comes in pieces of `step` bytes, then "!" with the stop text that ended it.
std::string shown(OutputText output, std::string_view text, size_t step) {
  std::string out;
  for (size_t at = 0; at < text.size() && !output.hit(); at += step) {
    out += output.push(text.substr(at, step), {});
  }
  out += output.finish();
  return output.hit() ? out + "!" + output.stop_text() : out;
}

TEST(OutputText, StopsCountUntilTheTextsHaveCome) {
  for (size_t step = 1; step < 12; ++step) {
    const auto said = [&](std::vector<std::string> stops, std::string_view text) {
      return shown(output_of(stops, {"<call>"}), text, step);
    };
    EXPECT_EQ(said({"x"}, "a<call>x</call>x"), "a<call>x</call>x") << step;
    EXPECT_EQ(said({"x"}, "a <cal x<call>x"), "a <cal !x") << step;
    EXPECT_EQ(said({"<", "call"}, "a<call>x<"), "a<call>x<") << step;
    EXPECT_EQ(said({"<c"}, "a<ca"), "a!<c") << step;
    EXPECT_EQ(said({"\n<call>", "b\n<"}, "b\n<call>"), "b\n<call>") << step;
    EXPECT_EQ(said({"ab", "b"}, "zab<call>"), "z!ab") << step;
    EXPECT_EQ(said({"\n\n"}, "a\n<cal"), "a\n<cal") << step;
    EXPECT_EQ(shown(output_of({"x"}, {"end", "<call>"}), "<call>xend", step), "<call>!x") << step;
    EXPECT_EQ(shown(output_of({"x"}, {"end", "<call>"}), "<call>.end<call>x", step), "<call>.end<call>x");
    EXPECT_EQ(shown(output_of({"x"}, {}), "<call>x", step), "<call>!x") << step;
  }
}

// A state to return to lies in front of whatever may become a stop text.
TEST(OutputText, WhatMayBeginTheTextIsPending) {
  OutputText output = output_of({"<c "}, {"<call>"});
  output.push("a", {});
  EXPECT_EQ(output.pending_token(), std::nullopt);
  output.push("<", {});
  output.push("c", {});
  EXPECT_EQ(output.pending_token(), 1u);
  output.push(" ", {});
  EXPECT_TRUE(output.hit());
  EXPECT_EQ(output.match_token(), 1u);
}

// Allows one text and nothing else, in which no stop id counts from its seventh byte on.
class OneText final : public TokenMask {
 public:
  explicit OneText(std::string text) : text_(std::move(text)), bits_(4, 0) {}
  std::span<const uint64_t> allowed() override {
    std::fill(bits_.begin(), bits_.end(), 0);
    const auto byte = static_cast<unsigned char>(text_[at_]);
    bits_[byte / 64] |= uint64_t{1} << (byte % 64);
    return bits_;
  }
  bool ready() const override { return true; }
  size_t prepare() override { return 0; }
  void accept(int32_t) override { at_++; }
  bool complete() const override { return at_ == text_.size(); }
  bool heeds(int32_t) const override { return at_ < 7; }
  std::unique_ptr<TokenMask> fork() const override { return std::make_unique<OneText>(*this); }

 private:
  std::string text_;
  size_t at_ = 0;
  std::vector<uint64_t> bits_;
};

std::string answer(StopRules stop) {
  TinyEngine tiny;
  Ask ask = TinyEngine::greedy("hello", 40);
  ask.request_id = "one";
  ask.stop = std::move(stop);
  ask.mask = std::make_shared<OneText>("a<call>xyz;");
  auto listener = std::make_shared<RecordingListener>();
  std::vector<Ask> rows;
  rows.push_back(std::move(ask));
  EXPECT_TRUE(tiny.engine().submit({.rows = std::move(rows), .listener = listener}).ok());
  return listener->finished().at(0).text;
}

TEST(OutputText, NeitherTextsNorIdsEndARowThatIsBeyondThem) {
  EXPECT_EQ(answer({.texts = {"y"}}), "a<call>x");
  EXPECT_EQ(answer({.ids = {'y'}, .texts = {"y"}, .until = {"<call>"}}), "a<call>xyz;");
  EXPECT_EQ(answer({.ids = {'c'}, .texts = {"y"}, .until = {"<call>"}}), "a<");
}

}  // namespace
}  // namespace fulmar
