// Whole requests as they come from a socket: whatever the bytes and in whatever pieces they come, nothing is
// kept without a bound, and the pieces make no difference to what is taken for a request (what is refused may
// be so sooner or later). Input: two bytes that choose the pieces, then what is received.
#include <algorithm>
#include <cstring>
#include <string>

#include "fuzz_input.h"
#include "net/request_reader.h"

namespace {

using namespace fulmar;
using Step = RequestReader::Step;

constexpr size_t kHead = 1024, kBody = 2048, kMostFields = 256;

struct Outcome {
  Step step = Step::more;
  int status = 0;
  std::string method, target, body;
  size_t fields = 0, left = 0;

  bool operator==(const Outcome&) const = default;
};

class Feed {
 public:
  Feed(std::string_view bytes, size_t first, size_t second) : bytes_(bytes), pieces_{first, second} {}

  // False: there is no more.
  bool fill(ReadBuffer& buffer) {
    const size_t taken = std::min({pieces_[turn_++ % 2], bytes_.size(), buffer.room()});
    if (taken == 0) {
      expect(bytes_.empty());  // a full buffer is refused, never waited with
      return false;
    }
    std::memcpy(buffer.prepare(taken).data(), bytes_.data(), taken);
    buffer.commit(taken);
    bytes_.remove_prefix(taken);
    return true;
  }
  size_t left() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t pieces_[2];
  size_t turn_ = 0;
};

Outcome read(Feed feed) {
  ReadBuffer buffer(kHead);
  RequestReader reader(kHead);
  Step step = reader.read_head(buffer);
  while (step == Step::more && feed.fill(buffer)) step = reader.read_head(buffer);
  const bool head = step == Step::done;
  if (head) {
    expect(reader.request().path == "*" || reader.request().path.starts_with('/'));
    expect(reader.request().headers.size() <= kMostFields);
    reader.limit_body(kBody);
    if (reader.body_is_next()) {
      step = reader.read_body(buffer);
      while (step == Step::more && feed.fill(buffer)) step = reader.read_body(buffer);
      expect(reader.body_bytes_received() <= kBody + 2 * kHead);
    }
  }
  expect(buffer.capacity() <= kHead);
  expect(reader.refused() == (step == Step::refused));
  expect(step != Step::done || reader.request().body.size() <= kBody);
  Outcome outcome{.step = step, .status = reader.refused() ? reader.refusal().status : 0};
  if (step == Step::refused) return outcome;
  if (head) {
    outcome.method = reader.request().method;
    outcome.target = reader.request().target;
    outcome.fields = reader.request().headers.size();
  }
  if (step != Step::done) return outcome;
  outcome.body = reader.request().body;
  outcome.left = buffer.size() + feed.left();
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes = fuzz_text(data + 2, size - 2);
  const Outcome at_once = read(Feed(bytes, kHead, kHead));
  const Outcome in_pieces = read(Feed(bytes, size_t{data[0]} + 1, size_t{data[1]} + 1));
  expect((at_once.step == Step::done) == (in_pieces.step == Step::done));
  expect(at_once.step != Step::done || at_once == in_pieces);
  return 0;
}
