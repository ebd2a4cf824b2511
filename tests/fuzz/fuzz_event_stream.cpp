// Server-sent events: what is read does not depend on how the bytes arrive, and what is written reads back.
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "net/sse.h"

namespace {

using namespace fulmar;

constexpr size_t kLongestEvent = 200;

struct Read {
  std::vector<std::string> events;
  bool ok = true;
};

template <class Feed>
Read read_events(Feed feed) {
  SseParser parser(kLongestEvent);
  Read read;
  feed([&](std::string_view piece) {
    const Status status = parser.feed(piece, [&](std::string_view data) { read.events.emplace_back(data); });
    read.ok = status.ok();
  });
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz_text(data + 1, size - 1);
  const Read once = read_events([&](auto feed) { feed(text); });
  const Read parts = read_events([&](auto feed) { in_pieces(text, data[0], feed); });
  expect(once.ok == parts.ok && once.events == parts.events);
  for (const std::string& event : once.events) {
    expect(event.size() <= kLongestEvent);
    const Read again = read_events([&](auto feed) { feed(sse_event(event)); });
    expect(again.ok && again.events.size() == 1 && again.events[0] == event);
  }
  return 0;
}
