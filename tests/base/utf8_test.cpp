// Decoding against the WHATWG algorithm, for every cut.
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace fulmar {
namespace {

// The decoder of the WHATWG Encoding Standard, byte by byte; an unfinished end is left out.
class StandardDecoder {
 public:
  std::string decode(std::string_view bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size();) {
      if (!take(static_cast<unsigned char>(bytes[i]), out)) continue;  // to be looked at again
      ++i;
    }
    return out;
  }
  bool unfinished() const { return needed_ != 0; }

 private:
  bool take(unsigned char byte, std::string& out) {
    if (needed_ == 0) {
      begin(byte, out);
      return true;
    }
    if (byte < lower_ || byte > upper_) {
      reset();
      out += kReplacementCharacter;
      return false;
    }
    lower_ = 0x80;
    upper_ = 0xBF;
    value_ = value_ << 6 | (byte & 0x3Fu);
    if (++seen_ == needed_) {
      append_utf8(value_, out);
      reset();
    }
    return true;
  }

  void begin(unsigned char byte, std::string& out) {
    if (byte < 0x80) {
      out += static_cast<char>(byte);
    } else if (byte >= 0xC2 && byte <= 0xDF) {
      needed_ = 1;
      value_ = byte & 0x1Fu;
    } else if (byte >= 0xE0 && byte <= 0xEF) {
      if (byte == 0xE0) lower_ = 0xA0;
      if (byte == 0xED) upper_ = 0x9F;
      needed_ = 2;
      value_ = byte & 0xFu;
    } else if (byte >= 0xF0 && byte <= 0xF4) {
      if (byte == 0xF0) lower_ = 0x90;
      if (byte == 0xF4) upper_ = 0x8F;
      needed_ = 3;
      value_ = byte & 0x7u;
    } else {
      out += kReplacementCharacter;
    }
  }

  void reset() {
    needed_ = seen_ = 0;
    value_ = 0;
    lower_ = 0x80;
    upper_ = 0xBF;
  }

  int needed_ = 0, seen_ = 0;
  char32_t value_ = 0;
  unsigned lower_ = 0x80, upper_ = 0xBF;
};

// One byte of every class that the table of well-formed sequences tells apart.
constexpr unsigned char kClasses[] = {0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2,
                                      0xDF, 0xE0, 0xE1, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};

std::vector<std::string> all_texts(size_t length) {
  std::vector<std::string> texts{""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < length; ++i) {
    for (const unsigned char byte : kClasses) texts.push_back(texts[i] + static_cast<char>(byte));
  }
  return texts;
}

TEST(Utf8Stream, DecodesAsTheStandardForEveryCut) {
  for (const std::string& text : all_texts(4)) {
    StandardDecoder standard;
    const std::string wanted = standard.decode(text);
    for (size_t cut = 0; cut < size_t{1} << (text.empty() ? 0 : text.size() - 1); ++cut) {
      Utf8Stream stream;
      std::string found, piece;
      for (size_t i = 0; i < text.size(); ++i) {
        piece += text[i];
        if (i + 1 < text.size() && !(cut >> i & 1)) continue;
        found += stream.push(piece);
        piece.clear();
      }
      ASSERT_EQ(found, wanted);
      ASSERT_EQ(stream.held() > 0, standard.unfinished());
      ASSERT_EQ(stream.finish() > 0, standard.unfinished());
      ASSERT_EQ(stream.held(), 0u);
    }
  }
}

TEST(Utf8, ValidTextIsExactlyWhatStaysTheSame) {
  for (const std::string& text : all_texts(4)) {
    ASSERT_EQ(is_utf8(text), to_utf8(text) == text);
    ASSERT_TRUE(is_utf8(to_utf8(text)));
  }
}

TEST(Utf8, ReplacesOncePerMaximalSubpart) {
  EXPECT_EQ(to_utf8("a\xF0\x9F\x98z"), "a\uFFFDz");
  EXPECT_EQ(to_utf8("\xF0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_utf8("\xE4\xBD"), "\uFFFD");
  EXPECT_EQ(to_utf8("\uFFFD"), "\uFFFD");
}

TEST(Utf8Stream, HoldsBackOnlyWhatMayBecomeACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("caf\xC3"), "caf");
  EXPECT_EQ(stream.held(), 1u);
  EXPECT_EQ(stream.push("\xA9 \xF0\x9F\x98"), "\u00E9 ");
  EXPECT_EQ(stream.held(), 3u);
  EXPECT_EQ(stream.push("\x80\xFF"), "\U0001F600\uFFFD");
  EXPECT_EQ(stream.push("\xE4\xBD"), "");
  EXPECT_EQ(stream.finish(), 2u);
  EXPECT_EQ(stream.push("a"), "a");
}

TEST(Utf8, AppendsEveryLength) {
  std::string text;
  for (const char32_t c : {U'A', U'\u00E9', U'\u273F', U'\U0001F600', U'\U0010FFFF'}) append_utf8(c, text);
  EXPECT_EQ(text, "A\u00E9\u273F\U0001F600\xF4\x8F\xBF\xBF");
}

}  // namespace
}  // namespace fulmar
