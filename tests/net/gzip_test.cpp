// Compressed bodies: genuine, broken and hostile.
#include "net/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/meter.h"

namespace fulmar {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Gzip, GivesBackWhatWasCompressed) {
  std::string mixed;
  for (uint32_t i = 0; i < 200'000; ++i) mixed += static_cast<char>(i * i >> 3);
  for (const std::string& text : {std::string(), std::string("x"), std::string(1'000'000, 'a'), mixed}) {
    const auto back = gunzip(gzip(text), 1'000'000);
    ASSERT_TRUE(back.ok()) << back.error().text;
    EXPECT_EQ(*back, text);
  }
}

TEST(Gzip, ABombStopsAtTheBound) {
  const std::string bomb = gzip(std::string(50'000'000, '\0'));
  EXPECT_LT(bomb.size(), 100'000u);
  const auto out = gunzip(bomb, 1'000'000);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::resource);
  EXPECT_NE(out.error().text.find("1000000"), std::string::npos);
}

TEST(Gzip, WhatComesOutIsBoundedByWhatWasSent) {
  const std::string bomb = gzip(std::string(200'000'000, '\0'));
  Meter meter;
  const Meter::Scope scope(meter);
  const auto out = gunzip(bomb, size_t{512} << 20);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().kind, ErrorKind::resource);
  EXPECT_LE(meter.used(), most_inflated(bomb.size()) + 65536);
  std::string prompt;  // the same words a thousand times over is a request
  for (int i = 0; i < 1000; i++)
    prompt += "The quick brown fox jumps over the lazy dog, number " + std::to_string(i);
  EXPECT_TRUE(gunzip(gzip(prompt), size_t{512} << 20).ok());
}

TEST(Gzip, StopsWhenNobodyWaits) {
  Meter meter;
  const Meter::Scope scope(meter);
  meter.stop();
  EXPECT_THROW((void)gunzip(gzip(std::string(3'000'000, 'a')), 10'000'000), WorkEnded);
}

TEST(Gzip, BrokenBytesAreErrors) {
  const std::string good = gzip("hello, hello, hello");
  for (size_t length = 0; length < good.size(); ++length) {
    const auto out = gunzip(good.substr(0, length), 1000);
    ASSERT_FALSE(out.ok()) << length;
    EXPECT_EQ(out.error().kind, ErrorKind::invalid) << out.error().text;
  }
  EXPECT_FALSE(gunzip("plain text", 1000).ok());
  EXPECT_FALSE(gunzip(good + "more", 1000).ok());
  std::string wrong = good;
  wrong[wrong.size() - 6] = static_cast<char>(wrong[wrong.size() - 6] ^ 1);  // the checksum
  EXPECT_FALSE(gunzip(wrong, 1000).ok());
}

}  // namespace
}  // namespace fulmar
