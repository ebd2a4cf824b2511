// The file format: what is read, and what is refused with which words.
#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sha256.h"
#include "support/folders.h"
#include "text/sample_vocabulary.h"
#include "text/vocabulary_json.h"

namespace fulmar {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text) {
  const Result<Vocabulary> vocabulary = parse_vocabulary(text, "v.txt");
  if (vocabulary.ok()) return "no error";
  EXPECT_EQ(vocabulary.error().kind, ErrorKind::corrupt);
  return vocabulary.error().text;
}

std::vector<std::string> tokens_of(std::string_view text) {
  const Result<Vocabulary> vocabulary = parse_vocabulary(text, "v.txt");
  std::vector<std::string> tokens;
  if (!vocabulary.ok()) return {vocabulary.error().text};
  for (const VocabularyEntry& entry : vocabulary->entries) tokens.push_back(entry.bytes);
  return tokens;
}

TEST(Vocabulary, ReadsEveryFormOfLiteral) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(1 'a' 1)", "a"},
      {R"(1 "a'b" 3)", "a'b"},
      {R"(1 'a"b' 3)", "a\"b"},
      {R"(1 'a b' 3)", "a b"},
      {R"(1 ' ' 1)", " "},
      {R"(1 '   ' 3)", "   "},
      {R"(1 '\t\n\r\\\'\"' 6)", "\t\n\r\\'\""},
      {R"(1 '\x80' 2)", "\xC2\x80"},
      {R"(1 '\u273f' 3)", "\u273F"},
      {R"(1 '\U0001F600' 4)", "\U0001F600"},
      {"1 '\u4F60' 3", "\u4F60"},
      {R"(1 b'\x80' 1)", "\x80"},
      {R"(1 b'\xe4\xbd' 2)", "\xE4\xBD"},
      {R"(1 b"a'\xff" 3)", "a'\xFF"},
      {"1 '\xC2\x85' 2", "\xC2\x85"},  // a newline elsewhere, not here
  };
  for (const auto& [line, bytes] : cases) EXPECT_EQ(tokens_of(line), std::vector<std::string>{bytes}) << line;
  EXPECT_EQ(tokens_of(R"(1 b'\x00' 1)"), std::vector<std::string>{std::string(1, '\0')});
}

TEST(Vocabulary, LineEndsMayBeOfAnyKind) {
  const std::vector<std::string> wanted{"a", "b"};
  for (const char* text :
       {"1 'a' 1\n2 'b' 1\n", "1 'a' 1\n2 'b' 1", "1 'a' 1\r\n2 'b' 1\r\n", "1 'a' 1\r\n2 'b' 1"}) {
    EXPECT_EQ(tokens_of(text), wanted);
  }
}

TEST(Vocabulary, KeepsIdsAndTheirGaps) {
  const Result<Vocabulary> vocabulary = parse_vocabulary("7 'a' 1\n0 'b' 1\n1048575 'c' 1\n", "v.txt");
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_EQ(vocabulary->entries[0].id, 7);
  EXPECT_EQ(vocabulary->entries[1].id, 0);
  EXPECT_EQ(vocabulary->entries[2].id, kMaxVocabularyId);
}

TEST(Vocabulary, RefusesWithLineFoundAndWanted) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "vocabulary v.txt: found no tokens, wanted at least one"},
      {"1 'a' 1\n\n2 'b' 1\n", "line 2: found '', wanted 'ID LITERAL LENGTH'"},
      {"1", "found '1', wanted 'ID LITERAL LENGTH'"},
      {"1 'a'", "found '1 'a'', wanted 'ID LITERAL LENGTH'"},
      {"x 'a' 1", "found id 'x', wanted a number from 0 to 1048575"},
      {"-1 'a' 1", "found id '-1'"},
      {"1048576 'a' 1", "found id '1048576'"},
      {"99999999999999999999999 'a' 1", "found id '99999999999999999999999'"},
      {" 'a' 1", "found id ''"},
      {"1 'a' 2", "found length 2, wanted 1, the bytes of the literal"},
      {"1 'a' -1", "found length '-1'"},
      {"1 'a' 9999999999999999999999", "found length '9999999999999999999999'"},
      {"1 'a' ", "found length ''"},
      {"1 '' 0", "found an empty token, wanted at least one byte"},
      {"1 a 1", "found a, wanted '..', \"..\" or b'..'"},
      {"1 'a 1", "found 'a, wanted '..'"},
      {"1 ' 1", "found ', wanted '..'"},
      {"1 b 1", "found b, wanted '..'"},
      {"1  1", "found nothing, wanted '..'"},
      {"1 u'a' 1", "found u'a', wanted '..'"},
      {"1 'a'b' 3", "found a quotation mark inside the literal"},
      {R"(1 'a\' 2)", "found a backslash at the end of the literal"},
      {R"(1 '\q' 1)", "found the escape '\\q', wanted one of"},
      {R"(1 '\x4' 1)", "found '\\x4', wanted 2 hexadecimal digits"},
      {R"(1 '\xzz' 1)", "found '\\xzz', wanted 2 hexadecimal digits"},
      {R"(1 '\x-1' 1)", "found '\\x-1', wanted 2 hexadecimal digits"},
      {R"(1 '\u12' 1)", "found '\\u12', wanted 4 hexadecimal digits"},
      {R"(1 '\ud800' 3)", "found code point 0xd800, wanted one that UTF-8 can express"},
      {R"(1 '\U00110000' 3)", "found code point 0x110000"},
      {R"(1 b'\u0041' 1)", "found the escape '\\u'"},
      {"1 b'\u4F60' 3", "found a byte above 0x7f in a bytes literal"},
      {"1 '\xFF' 1", "found bytes that are no UTF-8 in a text literal"},
      {"1 'a' 1\n2 'b' 1\n1 'c' 1\n", "line 3: found id 1 again, wanted it once (line 1)"},
      {"1 'a' 1\n2 'b' 1\n3 b'a' 1\n", "line 3: found token 'a' again, wanted it once (line 1)"},
      {std::string("\0\0\0", 3), "wanted 'ID LITERAL LENGTH'"},
      {std::string(100000, 'x'), "...', wanted 'ID LITERAL LENGTH'"},
      {std::string(kMaxVocabularyFileBytes + 1, 'x'), "found 16777217 bytes, wanted at most 16777216"},
  };
  for (const auto& [text, words] : cases) {
    const std::string error = error_of(text);
    EXPECT_THAT(error, HasSubstr(words));
    EXPECT_THAT(error, HasSubstr("v.txt"));
    EXPECT_LT(error.size(), 300u);
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

TEST(Vocabulary, OfTheDemoModelIsReadWhole) {
  const auto file = read_whole_file(support::source_folder() / "models/fulmar-demo.vocab.txt");
  ASSERT_TRUE(file);
  const Result<Vocabulary> vocabulary = parse_vocabulary(*file, "demo");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().text;
  EXPECT_GT(vocabulary->entries.size(), 256u);
}

// Whether a text in any form holds the World vocabulary.
bool is_world(std::string_view text) {
  const Result<Vocabulary> vocabulary = parse_any_vocabulary(text, "test");
  return vocabulary.ok() && is_world_vocabulary(*vocabulary);
}

TEST(Vocabulary, WorldIsKnownByItsIdsWhateverTheForm) {
  EXPECT_FALSE(is_world("1 'a' 1\n"));
  const auto file = read_whole_file(shared_world_file());
  if (!file) GTEST_SKIP() << "the World vocabulary is not at hand: " << shared_world_file();
  EXPECT_TRUE(is_world(*file));
  EXPECT_TRUE(is_world(std::string_view(*file).substr(0, file->size() - 1)));
  std::string crlf;
  for (const char c : *file) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_TRUE(is_world(crlf));
  EXPECT_EQ(tokens_of(crlf), tokens_of(*file));

  Vocabulary vocabulary = *parse_vocabulary(*file, "world");
  EXPECT_TRUE(is_world(tokenizer_json(vocabulary)));
  EXPECT_TRUE(is_world(token_map_json(vocabulary)));
  EXPECT_TRUE(is_world(id_map_json(vocabulary)));
  std::swap(vocabulary.entries[1000].id, vocabulary.entries[2000].id);
  EXPECT_FALSE(is_world(tokenizer_json(vocabulary)));
  vocabulary.entries.pop_back();
  EXPECT_FALSE(is_world_vocabulary(vocabulary));
}

TEST(JsonVocabulary, EveryFormGivesTheSameTokens) {
  const Vocabulary lines = *parse_vocabulary(vocabulary_file({"word", "\xE2\x9C\xBF", "a \n"}), "lines");
  for (const std::string& text : {tokenizer_json(lines), token_map_json(lines), id_map_json(lines)}) {
    const Result<Vocabulary> json = parse_any_vocabulary("\n " + text, "json");
    ASSERT_TRUE(json.ok()) << json.error().text;
    EXPECT_EQ(vocabulary_digest(*json), vocabulary_digest(lines));
  }
}

TEST(JsonVocabulary, WhatCannotBeOneIsRefused) {
  const auto refusal = [](std::string_view text) {
    const Result<Vocabulary> read = parse_json_vocabulary(text, "v.json");
    return read.ok() ? "(none)" : read.error().text;
  };
  EXPECT_THAT(refusal("{"), HasSubstr("vocabulary v.json: is no JSON"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("is no JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("found no tokens"));
  EXPECT_THAT(refusal(R"({"a":1,"b":1})"), HasSubstr("found id 1 again"));
  EXPECT_THAT(refusal(R"({"1":"a","2":"a"})"), HasSubstr("id 2 stands for bytes that another id stands for"));
  EXPECT_THAT(refusal(R"({"a":-1})"), HasSubstr("found id -1, wanted 0 to"));
  EXPECT_THAT(refusal(R"({"a":1048576})"), HasSubstr("found id 1048576"));
  EXPECT_THAT(refusal(R"({"two words":1})"), HasSubstr("id 1 is not written in the byte-level alphabet"));
  EXPECT_THAT(refusal("{\"\u4F60\":1}"), HasSubstr("id 1 is not written in the byte-level alphabet"));
  EXPECT_THAT(refusal(R"({"1":[256]})"), HasSubstr("id 1 stands for neither"));
  EXPECT_THAT(refusal(R"({"1":""})"), HasSubstr("id 1 stands for no bytes"));
  EXPECT_THAT(refusal(R"({"a":{}})"), HasSubstr("neither a map from tokens to ids"));
}

TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace fulmar
