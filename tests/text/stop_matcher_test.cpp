// The matcher against an oracle that sees the whole text at once, for every way to cut it.
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fulmar {
namespace {

using Texts = std::vector<std::string>;

struct Oracle {
  std::string shown;
  std::optional<StopHit> hit;
};

// Earliest start, then shortest: ruling on overlapping stops.
Oracle whole_text(const std::string& text, const Texts& stops, bool include_stop) {
  std::optional<StopHit> best;
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    const size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    const StopHit hit{at, at + stop.size(), stop};
    if (!best || hit.start < best->start || (hit.start == best->start && hit.end < best->end)) best = hit;
  }
  if (!best) return {text, best};
  return {text.substr(0, include_stop ? best->end : best->start), best};
}

// True when some stop could still start at `start` once `text` goes on.
bool may_begin(const std::string& text, size_t start, const Texts& stops) {
  return std::any_of(stops.begin(), stops.end(),
                     [&](const std::string& stop) { return stop.starts_with(text.substr(start)); });
}

void expect_same_hit(const std::optional<StopHit>& found, const std::optional<StopHit>& wanted) {
  ASSERT_EQ(found.has_value(), wanted.has_value());
  if (!found) return;
  EXPECT_EQ(found->start, wanted->start);
  EXPECT_EQ(found->end, wanted->end);
  EXPECT_EQ(found->text, wanted->text);
}

void check_every_cut(const std::string& text, const Texts& stops, bool include_stop) {
  const Oracle wanted = whole_text(text, stops, include_stop);
  const auto shared = std::make_shared<const StopTexts>(stops);
  const size_t cuts = text.empty() ? 1 : size_t{1} << (text.size() - 1);
  for (size_t cut = 0; cut < cuts; ++cut) {
    StopMatcher matcher(shared, include_stop);
    std::string shown, piece;
    for (size_t i = 0; i < text.size(); ++i) {
      piece += text[i];
      if (i + 1 < text.size() && !(cut >> i & 1)) continue;
      shown += matcher.push(piece);
      piece.clear();
    }
    shown += matcher.finish();
    ASSERT_EQ(shown, wanted.shown) << text;
    ASSERT_NO_FATAL_FAILURE(expect_same_hit(matcher.hit(), wanted.hit)) << text;
  }
}

// Every text over {a, b} of up to `length` letters.
std::vector<std::string> all_texts(size_t length) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == length) break;
    const std::string text = texts[i];
    texts.push_back(text + 'a');
    texts.push_back(text + 'b');
  }
  return texts;
}

TEST(StopMatcher, AgreesWithTheWholeTextForEveryCut) {
  const std::vector<Texts> stop_sets = {{},
                                        {""},
                                        {"a"},
                                        {"ab"},
                                        {"aa"},
                                        {"aba"},
                                        {"aab"},
                                        {"a", "b"},
                                        {"ab", "ba"},
                                        {"abab", "b"},
                                        {"aabb", "ab"},
                                        {"abba", "bb", "a"},
                                        {"aa", "aaa"},
                                        {"baab", "aa"},
                                        {"bbbb", "bba", "ab"},
                                        {"ababa", "babb", "bb"},
                                        {"aaab", "aab", "ab", "b"}};
  for (const Texts& stops : stop_sets) {
    for (const std::string& text : all_texts(7)) {
      check_every_cut(text, stops, false);
      check_every_cut(text, stops, true);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(StopMatcher, AgreesForEveryPairOfShortStops) {
  const std::vector<std::string> words = all_texts(4);
  const std::vector<std::string> texts = all_texts(6);
  for (const std::string& first : words) {
    for (const std::string& second : words) {
      for (const std::string& text : texts) {
        StopMatcher matcher({first, second}, false);
        std::string shown;
        for (const char c : text) shown += matcher.push({&c, 1});
        shown += matcher.finish();
        const Oracle wanted = whole_text(text, {first, second}, false);
        ASSERT_EQ(shown, wanted.shown) << text << " with " << first << ", " << second;
        expect_same_hit(matcher.hit(), wanted.hit);
      }
    }
  }
}

TEST(StopMatcher, HoldsBackNoMoreAndNoLessThanNeeded) {
  const Texts stops{"abab", "bb"};
  for (const std::string& text : all_texts(7)) {
    StopMatcher matcher(stops, false);
    std::string fed, shown;
    for (const char c : text) {
      fed += c;
      shown += matcher.push({&c, 1});
      if (matcher.hit()) break;
      size_t earliest = 0;
      while (earliest < fed.size() && !may_begin(fed, earliest, stops)) ++earliest;
      ASSERT_EQ(shown, fed.substr(0, earliest)) << fed;
      if (earliest == fed.size()) {
        ASSERT_EQ(matcher.pending_start(), std::nullopt);
      } else {
        ASSERT_EQ(matcher.pending_start(), earliest);
      }
    }
  }
}

TEST(StopMatcher, TheEarliestStartWinsAlsoWhenItCompletesLater) {
  StopMatcher matcher({"one two three", "two"}, false);
  EXPECT_EQ(matcher.push("say one two"), "say ");
  EXPECT_FALSE(matcher.hit());
  EXPECT_EQ(matcher.pending_start(), 4u);
  EXPECT_EQ(matcher.push(" three and more"), "");
  ASSERT_TRUE(matcher.hit());
  EXPECT_EQ(matcher.hit()->start, 4u);
  EXPECT_EQ(matcher.hit()->text, "one two three");
  EXPECT_EQ(matcher.pending_start(), std::nullopt);
}

TEST(StopMatcher, TheOtherOneWinsWhenTheEarlierFails) {
  StopMatcher matcher({"one two three", "two"}, true);
  EXPECT_EQ(matcher.push("say one two"), "say ");
  EXPECT_EQ(matcher.push(" bananas"), "one two");
  ASSERT_TRUE(matcher.hit());
  EXPECT_EQ(matcher.hit()->start, 8u);
  EXPECT_EQ(matcher.hit()->end, 11u);
}

TEST(StopMatcher, TheEndDecidesWhatIsStillOpen) {
  StopMatcher matcher({"one two three", "two"}, false);
  matcher.push("one two");
  EXPECT_EQ(matcher.finish(), "one ");
  ASSERT_TRUE(matcher.hit());
  EXPECT_EQ(matcher.hit()->text, "two");

  StopMatcher partial({"\n\nUser:"}, false);
  EXPECT_EQ(partial.push("hi\n\nUse"), "hi");
  EXPECT_EQ(partial.finish(), "\n\nUse");
  EXPECT_FALSE(partial.hit());
}

TEST(StopMatcher, WhatFollowsAHitIsIgnored) {
  StopMatcher matcher({"x"}, false);
  EXPECT_EQ(matcher.push("ax"), "a");
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_EQ(matcher.hit()->start, 1u);
}

TEST(StopMatcher, TenThousandTextsAreFoundInOnePass) {
  Texts stops;
  for (int i = 0; i < 10000; ++i) stops.push_back("stop" + std::to_string(i) + "!");
  StopMatcher matcher(stops, false);
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "stop" + std::to_string(i % 20000) + " ";
  EXPECT_EQ(matcher.push(text), text);
  EXPECT_EQ(matcher.push("a stop9999! b"), "a ");
  ASSERT_TRUE(matcher.hit());
  EXPECT_EQ(matcher.hit()->start, text.size() + 2);
}

TEST(StopMatcher, LongRepetitiveTextsDoNotStall) {
  StopMatcher matcher({std::string(20000, 'a') + 'b', std::string(20000, 'a') + 'c'}, false);
  const std::string text(500000, 'a');
  std::string shown;
  for (size_t i = 0; i < text.size(); i += 1000)
    shown += matcher.push(std::string_view(text).substr(i, 1000));
  EXPECT_EQ(shown.size(), text.size() - 20000);
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.hit()->start, text.size() - 20000);
}

}  // namespace
}  // namespace fulmar
