// Encoding against a naive longest match, round trips, and the real World vocabulary where it is at hand.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <random>

#include "support/folders.h"
#include "text/byte_tokenizer.h"
#include "text/sample_vocabulary.h"
#include "text/stop_defaults.h"
#include "text/think_mode.h"
#include "text/world_tokenizer.h"

namespace fulmar {
namespace {

using Ids = std::vector<int32_t>;

// Tries every length from the longest down.
class NaiveTokenizer {
 public:
  explicit NaiveTokenizer(const Vocabulary& vocabulary) {
    for (const VocabularyEntry& entry : vocabulary.entries) {
      ids_[entry.bytes] = entry.id;
      longest_ = std::max(longest_, entry.bytes.size());
    }
  }

  Ids encode(std::string_view text) const {
    Ids ids;
    while (!text.empty()) {
      size_t length = std::min(longest_, text.size());
      while (!ids_.contains(std::string(text.substr(0, length)))) --length;
      ids.push_back(ids_.at(std::string(text.substr(0, length))));
      text.remove_prefix(length);
    }
    return ids;
  }

 private:
  std::map<std::string, int32_t> ids_;
  size_t longest_ = 0;
};

std::string random_text(std::mt19937& random, std::string_view alphabet, size_t most) {
  std::string text(random() % (most + 1), ' ');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

std::string all_bytes() {
  std::string bytes(256, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

Vocabulary parse(const std::string& file) {
  Result<Vocabulary> vocabulary = parse_vocabulary(file, "test");
  EXPECT_TRUE(vocabulary.ok()) << (vocabulary.ok() ? "" : vocabulary.error().text);
  return vocabulary.ok() ? std::move(vocabulary).value() : Vocabulary{};
}

WorldTokenizer tokenizer_of(const std::vector<std::string>& tokens) {
  return WorldTokenizer(parse(vocabulary_file(tokens)), false);
}

TEST(ByteTokenizer, IdsAreBytesAndThereIsNoEnd) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.encode(std::string_view("a\0\xFF", 3)), (Ids{97, 0, 255}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all_bytes())), all_bytes());
  EXPECT_EQ(tokenizer.bytes(0), std::string_view("\0", 1));
  for (const int32_t unknown : {-1, 256, INT32_MAX, INT32_MIN}) EXPECT_EQ(tokenizer.bytes(unknown), "");
  EXPECT_EQ(tokenizer.eos(), std::nullopt);
  EXPECT_EQ(tokenizer.token_of("a"), 97);
  EXPECT_EQ(tokenizer.token_of("ab"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of(""), std::nullopt);
}

TEST(WorldTokenizer, TakesTheLongestTokenAndReturnsToTheLastOneThatFitted) {
  const WorldTokenizer tokenizer = tokenizer_of({"ab", "abcde", "bc"});
  EXPECT_EQ(tokenizer.encode("abcde"), (Ids{258}));
  EXPECT_EQ(tokenizer.encode("abcdx"), (Ids{257, 'c' + 1, 'd' + 1, 'x' + 1}));
  EXPECT_EQ(tokenizer.encode("abcd"), (Ids{257, 'c' + 1, 'd' + 1}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(WorldTokenizer, EncodeAppends) {
  const WorldTokenizer tokenizer = tokenizer_of({"ab"});
  Ids ids{7};
  tokenizer.encode("ab", ids);
  EXPECT_EQ(ids, (Ids{7, 257}));
}

TEST(WorldTokenizer, UnknownIdsHaveNoBytes) {
  const WorldTokenizer tokenizer = tokenizer_of({"ab"});
  EXPECT_EQ(tokenizer.vocabulary_size(), 258);
  for (const int32_t unknown : {0, -1, 258, INT32_MAX, INT32_MIN}) EXPECT_EQ(tokenizer.bytes(unknown), "");
  EXPECT_EQ(tokenizer.decode(Ids{0, 257, 258, 98}), "aba");
  EXPECT_EQ(tokenizer.eos(), 0);
  EXPECT_EQ(tokenizer.token_of("ab"), 257);
  EXPECT_EQ(tokenizer.token_of("abc"), std::nullopt);
}

TEST(WorldTokenizer, IdZeroIsDataWhereTheFileListsIt) {
  std::string file;
  for (int byte = 0; byte < 256; ++byte)
    file += vocabulary_line(byte, std::string(1, static_cast<char>(byte)));
  const WorldTokenizer tokenizer(parse(file), false);
  EXPECT_EQ(tokenizer.eos(), std::nullopt);
  EXPECT_EQ(tokenizer.encode(std::string_view("\0", 1)), (Ids{0}));
}

TEST(WorldTokenizer, ASmallVocabularyLeavesOutWhatItHasNoTokenFor) {
  const WorldTokenizer tokenizer(parse("1 '0' 1\n2 '1' 1\n3 '10' 2\n4 '234' 3\n"), false);
  EXPECT_EQ(tokenizer.encode("0110x232341"), (Ids{1, 2, 3, 4, 2}));
  EXPECT_EQ(tokenizer.first_unknown("0110"), std::nullopt);
  EXPECT_EQ(tokenizer.first_unknown("01x"), 2u);
  EXPECT_EQ(tokenizer.first_unknown("0x1"), 1u);
  EXPECT_EQ(tokenizer.first_unknown("234023"), 4u);
  EXPECT_EQ(tokenizer.first_unknown(""), std::nullopt);
  EXPECT_EQ(tokenizer.token_of("0x"), std::nullopt);
  EXPECT_EQ(tokenizer.token_of("x0"), std::nullopt);
}

TEST(WorldTokenizer, AgreesWithNaiveLongestMatchOnRandomVocabularies) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    const std::string_view alphabet = round % 3 == 0   ? "ab"
                                      : round % 3 == 1 ? "abc \n"
                                                       : std::string_view("\xE4\xBD\xA0\xFF\0z", 6);
    std::map<std::string, bool> tokens;
    for (int i = 0; i < 200; ++i) {
      std::string token = random_text(random, alphabet, 9);
      if (token.size() > 1) tokens[token] = true;
    }
    std::vector<std::string> list;
    for (const auto& [token, unused] : tokens) list.push_back(token);
    const Vocabulary vocabulary = parse(vocabulary_file(list));
    const WorldTokenizer tokenizer(vocabulary, false);
    const NaiveTokenizer naive(vocabulary);
    for (int i = 0; i < 100; ++i) {
      const std::string text = random_text(random, alphabet, 60);
      ASSERT_EQ(tokenizer.encode(text), naive.encode(text));
      ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
    for (const VocabularyEntry& entry : vocabulary.entries)
      ASSERT_EQ(tokenizer.token_of(entry.bytes), entry.id);
  }
}

TEST(StopDefaults, AreIdsWhereTheVocabularyHasTheTokensElseTexts) {
  const StopDefaults ids = stop_defaults(tokenizer_of({"\n\n", "User", "\u273F"}));
  EXPECT_EQ(ids.turn_ids, (Ids{257, 258}));
  EXPECT_TRUE(ids.turn_texts.empty());
  EXPECT_EQ(ids.infill_ids, (Ids{259}));
  EXPECT_TRUE(ids.infill_texts.empty());

  const StopDefaults texts = stop_defaults(ByteTokenizer());
  EXPECT_TRUE(texts.turn_ids.empty());
  EXPECT_EQ(texts.turn_texts, (std::vector<std::string>{"\n\n", "User"}));
  EXPECT_EQ(texts.infill_texts, (std::vector<std::string>{"\xE2\x9C\xBF"}));

  const StopDefaults mixed = stop_defaults(tokenizer_of({"User"}));
  EXPECT_EQ(mixed.turn_ids, (Ids{257}));
  EXPECT_EQ(mixed.turn_texts, (std::vector<std::string>{"\n\n"}));
}

class RealWorldVocabulary : public testing::Test {
 protected:
  void SetUp() override {
    const auto file = read_whole_file(shared_world_file());
    if (!file) GTEST_SKIP() << "the World vocabulary is not at hand: " << shared_world_file();
    vocabulary_ = parse(*file);
    EXPECT_TRUE(is_world_vocabulary(vocabulary_));
  }

  Vocabulary vocabulary_;
};

TEST_F(RealWorldVocabulary, HasTheKnownShapeAndStops) {
  const WorldTokenizer tokenizer(vocabulary_, true);
  EXPECT_EQ(vocabulary_.entries.size(), 65529u);
  EXPECT_EQ(tokenizer.vocabulary_size(), 65530);
  EXPECT_EQ(tokenizer.name(), "world");
  EXPECT_EQ(tokenizer.eos(), 0);
  const StopDefaults stops = stop_defaults(tokenizer);
  EXPECT_EQ(stops.turn_ids, (Ids{261, 24281}));
  EXPECT_EQ(stops.infill_ids, (Ids{10060}));
}

TEST_F(RealWorldVocabulary, TheIdsThatWouldCloseAThinkBlockAreKnown) {
  EXPECT_EQ(think_closers(WorldTokenizer(vocabulary_, true)), (Ids{111, 754}));
  EXPECT_TRUE(think_closers(tokenizer_of({"nn", "</"})).empty());
  EXPECT_TRUE(think_closers(ByteTokenizer()).empty());
}

TEST_F(RealWorldVocabulary, EveryTokenEncodesToItself) {
  const WorldTokenizer tokenizer(vocabulary_, true);
  for (const VocabularyEntry& entry : vocabulary_.entries)
    ASSERT_EQ(tokenizer.encode(entry.bytes), Ids{entry.id});
}

TEST_F(RealWorldVocabulary, AgreesWithNaiveLongestMatch) {
  const WorldTokenizer tokenizer(vocabulary_, true);
  const NaiveTokenizer naive(vocabulary_);
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    while (text.size() < 200) {  // token fragments side by side meet at unusual places
      const std::string& token = vocabulary_.entries[random() % vocabulary_.entries.size()].bytes;
      text += token.substr(0, 1 + random() % token.size());
    }
    ASSERT_EQ(tokenizer.encode(text), naive.encode(text));
    ASSERT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

Ids ids_of(simdjson::dom::element list) {
  Ids ids;
  for (const int64_t id : list.get_array()) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST_F(RealWorldVocabulary, ReproducesTheGoldenEncodings) {
  const auto path = support::source_folder() / "../shared/golden/world-tokenizer.json";
  const auto file = read_whole_file(path);
  if (!file) GTEST_SKIP() << "no golden file: " << path;
  const WorldTokenizer tokenizer(vocabulary_, true);
  simdjson::dom::parser parser;
  const simdjson::dom::element golden = parser.parse(*file);
  size_t cases = 0;
  for (const simdjson::dom::element entry : golden["text"].get_array()) {
    const std::string_view text = entry["text"];
    EXPECT_EQ(tokenizer.encode(text), ids_of(entry["ids"])) << text;
    EXPECT_EQ(tokenizer.decode(ids_of(entry["ids"])), text);
    ++cases;
  }
  for (const simdjson::dom::element entry : golden["bytes_hex"].get_array()) {
    const std::string bytes = from_hex(std::string_view(entry["hex"]));
    EXPECT_EQ(tokenizer.encode(bytes), ids_of(entry["ids"]));
    EXPECT_EQ(tokenizer.decode(ids_of(entry["ids"])), bytes);
    ++cases;
  }
  EXPECT_GE(cases, 15u);
}

}  // namespace
}  // namespace fulmar
