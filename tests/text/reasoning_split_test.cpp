// The splitter gives the same parts however the text is cut.
#include "text/reasoning_split.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

SplitText split(ReasoningMode mode, const std::vector<std::string>& pieces) {
  ReasoningSplitter splitter(mode);
  SplitText all;
  const auto add = [&](const SplitText& part) {
    all.reasoning += part.reasoning;
    all.content += part.content;
  };
  for (const std::string& piece : pieces) add(splitter.feed(piece));
  add(splitter.finish());
  return all;
}

// Whole, letter by letter, and in two and three pieces cut anywhere.
void check(ReasoningMode mode, const std::string& text, const std::string& reasoning,
           const std::string& content) {
  std::vector<std::vector<std::string>> cuts{{text}, {}};
  for (const char c : text) cuts[1].push_back(std::string(1, c));
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      cuts.push_back({text.substr(0, i), text.substr(i, j - i), text.substr(j)});
    }
  }
  for (const auto& pieces : cuts) {
    const SplitText found = split(mode, pieces);
    ASSERT_EQ(found.reasoning, reasoning) << text;
    ASSERT_EQ(found.content, content) << text;
  }
}

ReasoningMode mode_of(ThinkMode think) { return reasoning_mode(think, ReasoningFormat::split); }

TEST(ReasoningSplit, ThinkingGoesToAFieldOfItsOwn) {
  const ReasoningMode mode = mode_of(ThinkMode::free);
  check(mode, ">\nHmm.\n</think>\nYes.", "Hmm.\n", "Yes.");
  check(mode, ">Hmm</think>\n\n  Yes. \n", "Hmm", "Yes. \n");
  check(mode, "\n\nHmm</think>Yes", "Hmm", "Yes");
  check(mode, " so</think>Yes", " so", "Yes");
  check(mode, ">\n</think>\nYes", "", "Yes");
  check(mode, "</think>Yes", "", "Yes");
  check(mode, ">a < b </thin </think2 <</think>x</think>y", "a < b </thin </think2 <", "x</think>y");
}

TEST(ReasoningSplit, ContentIsAsItIsWhereThatIsWanted) {
  ReasoningMode thinking = mode_of(ThinkMode::free), tag = mode_of(ThinkMode::fast);
  ReasoningMode plain = mode_of(ThinkMode::none);
  for (ReasoningMode* mode : {&thinking, &tag, &plain}) mode->as_is = true;
  check(thinking, ">\nHmm</think> \n Yes", "Hmm", " \n Yes");
  check(tag, "> \n Yes", "", " \n Yes");
  check(plain, " \n Yes", "", " \n Yes");
}

TEST(ReasoningSplit, AnUnfinishedBlockIsAllReasoning) {
  const ReasoningMode mode = mode_of(ThinkMode::think_long);
  check(mode, ">\nHmm", "Hmm", "");
  check(mode, ">\nHmm</think", "Hmm</think", "");
  check(mode, ">\n\n", "", "");
  check(mode, "", "", "");
}

TEST(ReasoningSplit, WhatThePromptHasOfTheThinkingBelongsToIt) {
  check(mode_of(ThinkMode::prefer_chinese), "\uFF0Cok</think>\nYes", "\u55EF\uFF0Cok", "Yes");
  check(reasoning_mode(ThinkMode::prefer_chinese, ReasoningFormat::inline_text), "\uFF0Cok</think>\nYes", "",
        "<think>\u55EF\uFF0Cok</think>\nYes");
}

TEST(ReasoningSplit, InlineTextIsKeptWholeWithItsOpening) {
  check(reasoning_mode(ThinkMode::free, ReasoningFormat::inline_text), ">\nHmm</think>\n Yes", "",
        "<think>\nHmm</think>\n Yes");
}

TEST(ReasoningSplit, TheRestOfAnEmptyBlockIsDropped) {
  for (const ReasoningFormat format : {ReasoningFormat::split, ReasoningFormat::inline_text}) {
    const ReasoningMode mode = reasoning_mode(ThinkMode::fast, format);
    check(mode, ">\nYes", "", "Yes");
    check(mode, ">\n\n Yes\n", "", "Yes\n");
    check(mode, "Yes > no", "", "Yes > no");
    check(mode, ">> quoted", "", "> quoted");
    check(mode, ">", "", "");
  }
}

TEST(ReasoningSplit, WithoutAThinkBlockOnlyLeadingBlanksGo) {
  for (const ThinkMode think : {ThinkMode::none, ThinkMode::fast_closed, ThinkMode::fast_line}) {
    check(mode_of(think), " \n Yes </think> ", "", "Yes </think> ");
    check(mode_of(think), "> quoted", "", "> quoted");
    check(mode_of(think), " \n", "", "");
  }
}

TEST(ReasoningSplit, StreamsWithoutDelay) {
  ReasoningSplitter splitter(mode_of(ThinkMode::free));
  EXPECT_EQ(splitter.feed(">\n").reasoning, "");
  EXPECT_EQ(splitter.feed("Let me").reasoning, "Let me");
  EXPECT_EQ(splitter.feed(" see.</th").reasoning, " see.");
  EXPECT_EQ(splitter.feed("ere").reasoning, "</there");
  EXPECT_EQ(splitter.feed("</think>").reasoning, "");
  EXPECT_EQ(splitter.feed("\nYes").content, "Yes");
  EXPECT_EQ(splitter.feed(" and\n").content, " and\n");
}

TEST(ReasoningSplit, FormatsByName) {
  EXPECT_EQ(parse_reasoning_format("auto"), ReasoningFormat::split);
  EXPECT_EQ(parse_reasoning_format("deepseek"), ReasoningFormat::split);
  EXPECT_EQ(parse_reasoning_format("none"), ReasoningFormat::inline_text);
  EXPECT_EQ(parse_reasoning_format("raw"), std::nullopt);
}

}  // namespace
}  // namespace fulmar
