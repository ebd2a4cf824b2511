// Requests from bytes, in whatever pieces they come: what is taken, what is refused, and that nothing a
// client sends is kept without a bound.
#include "net/request_reader.h"

#include <gtest/gtest.h>

#include <cstring>

namespace fulmar::test {
namespace {

using Step = RequestReader::Step;

constexpr size_t kHead = 4096;
constexpr size_t kBody = 1000;

struct Read {
  Step step = Step::more;
  int status = 0;
  std::string method, path, body;
  size_t most_buffered = 0;  // the buffer's largest size
  size_t left = 0;           // bytes behind the request
};

// As a connection does it, `piece` bytes at a time, as long as somebody wants them.
Read read(std::string_view bytes, size_t piece, size_t most_body = kBody) {
  ReadBuffer buffer(kHead);
  RequestReader reader(kHead);
  Read result;
  bool in_head = true;
  for (;;) {
    result.step = in_head ? reader.read_head(buffer) : reader.read_body(buffer);
    if (in_head && result.step == Step::done) {
      in_head = false;
      reader.limit_body(most_body);
      if (!reader.body_is_next()) break;
      continue;
    }
    if (result.step != Step::more || bytes.empty()) break;
    const size_t taken = std::min({piece, bytes.size(), buffer.room()});
    if (taken == 0) break;  // a full buffer that still wants more: refused, or this test fails
    std::memcpy(buffer.prepare(taken).data(), bytes.data(), taken);
    buffer.commit(taken);
    bytes.remove_prefix(taken);
    result.most_buffered = std::max(result.most_buffered, buffer.size());
  }
  result.status = reader.refused() ? reader.refusal().status : 0;
  result.method = reader.request().method;
  result.path = reader.request().path;
  result.body = reader.request().body;
  result.left = buffer.size() + bytes.size();
  return result;
}

const std::string kPost = "POST /a HTTP/1.1\r\nHost: x\r\n";
const std::string kChunks = kPost + "Transfer-Encoding: chunked\r\n\r\n";

class InPieces : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Of, InPieces, testing::Values(1, 2, 3, 7, 64, 4096));

TEST_P(InPieces, ARequestIsTheSame) {
  for (const std::string& text :
       {kPost + "Content-Length: 5\r\n\r\nhello", kChunks + "5\r\nhello\r\n0\r\n\r\n",
        kChunks + "2;a=b\r\nhe\r\n3\r\nllo\r\n0;c\r\nX: y\r\n\r\n"}) {
    const Read got = read(text + "GET /next", GetParam());
    EXPECT_EQ(got.step, Step::done) << text;
    EXPECT_EQ(got.method + got.path + got.body, "POST/ahello");
    EXPECT_EQ(got.left, 9u);
  }
}

TEST_P(InPieces, EmptyLinesBeforeARequestAreSkipped) {
  EXPECT_EQ(read("\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n", GetParam()).path, "/a");
  EXPECT_EQ(read("\r\n", GetParam()).step, Step::more);
  std::string many;
  for (int i = 0; i < 20; i++) many += "\r\n";
  EXPECT_EQ(read(many + "GET / HTTP/1.1\r\n\r\n", GetParam()).status, 400);
  EXPECT_EQ(read("\nGET / HTTP/1.1\r\n\r\n", GetParam()).status, 400);
}

// Each place where a client decides on a length, made longer and longer: the next one belongs in this list.
struct Endless {
  const char* name;
  std::string before, unit;
  int status;
};

class EndlessParts : public testing::TestWithParam<std::tuple<Endless, size_t>> {};

TEST_P(EndlessParts, AreRefusedInABoundedBuffer) {
  const auto& [part, piece] = GetParam();
  std::string text = part.before;
  while (text.size() < 20 * kHead) text += part.unit;
  const Read got = read(text, piece);
  EXPECT_EQ(got.step, Step::refused);
  EXPECT_EQ(got.status, part.status);
  EXPECT_LE(got.most_buffered, kHead);
  EXPECT_LE(text.size() - got.left, part.before.size() + 2 * kHead + kBody)
      << "bytes taken before the refusal";
}

INSTANTIATE_TEST_SUITE_P(
    All, EndlessParts,
    testing::Combine(testing::Values(Endless{"method", "", "A", 431}, Endless{"target", "GET /", "a", 431},
                                     Endless{"name", "GET / HTTP/1.1\r\n", "a", 431},
                                     Endless{"value", "GET / HTTP/1.1\r\nX: ", "a", 431},
                                     Endless{"fields", "GET / HTTP/1.1\r\n", "X: y\r\n", 431},
                                     Endless{"size", kChunks, "0", 431},  //
                                     Endless{"extension", kChunks + "1;x=", "a", 431},
                                     Endless{"extensions", kChunks + "1", ";x=a", 431},
                                     Endless{"trailer", kChunks + "0\r\nX: ", "a", 431},
                                     Endless{"trailers", kChunks + "0\r\n", "X: y\r\n", 431},
                                     Endless{"lastExtension", kChunks + "0;x=", "a", 431},
                                     Endless{"chunks", kChunks, "1\r\na\r\n", 413},
                                     Endless{"smallChunksOfExtensions", kChunks,
                                             "1;x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\na\r\n", 413},
                                     Endless{"emptyLines", "", "\r\n", 400}),
                     testing::Values(size_t{1}, size_t{1000}, kHead)),
    [](const auto& each) {
      return std::string(std::get<0>(each.param).name) + "In" + std::to_string(std::get<1>(each.param));
    });

TEST(RequestReader, HasABoundOnFields) {
  std::string text = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 300; i++) text += "a:\r\n";
  EXPECT_EQ(read(text + "\r\n", 4096).status, 431);
}

TEST(RequestReader, ABodyOfTheLimitPassesInAnyFraming) {
  const std::string body(kBody, 'b');
  EXPECT_EQ(read(kPost + "Content-Length: 1000\r\n\r\n" + body, 100).body, body);
  EXPECT_EQ(read(kChunks + "3e8\r\n" + body + "\r\n0\r\n\r\n", 100).body, body);
  std::string small = kChunks;
  for (size_t i = 0; i < kBody / 10; i++) small += "a\r\n" + body.substr(0, 10) + "\r\n";
  EXPECT_EQ(read(small + "0\r\n\r\n", 100).body, body);
  EXPECT_EQ(read(kPost + "Content-Length: 1001\r\n\r\n" + body, 100).status, 413);
  EXPECT_EQ(read(kChunks + "3e9\r\n" + body + "b\r\n0\r\n\r\n", 100).status, 413);
}

}  // namespace
}  // namespace fulmar::test
