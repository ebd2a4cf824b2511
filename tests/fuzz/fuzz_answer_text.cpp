// Stop texts and the think block while an answer streams: the shown text does not depend on how it arrives,
// and the first stop is the one that a naive search finds. Input: a byte, stop texts by '|', a line end, the
// answer.
#include <optional>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "text/reasoning_split.h"
#include "text/stop_matcher.h"

namespace {

using namespace fulmar;

struct Found {
  size_t start = std::string::npos, end = 0;
};

// The earliest match; of those that start at one byte the shortest.
Found naive_stop(const std::vector<std::string>& stops, std::string_view text) {
  Found best;
  for (const std::string& stop : stops) {
    if (stop.empty()) continue;
    const size_t at = text.find(stop);
    if (at == std::string_view::npos) continue;
    if (at < best.start || (at == best.start && at + stop.size() < best.end)) best = {at, at + stop.size()};
  }
  return best;
}

void check_stops(const std::vector<std::string>& stops, std::string_view text, bool include, uint32_t seed) {
  StopMatcher matcher(stops, include);
  std::string shown;
  in_pieces(text, seed, [&](std::string_view piece) { shown += matcher.push(piece); });
  shown += matcher.finish();
  const Found wanted = naive_stop(stops, text);
  if (wanted.start == std::string::npos) {
    expect(!matcher.hit() && shown == text);
    return;
  }
  expect(matcher.hit() && matcher.hit()->start == wanted.start && matcher.hit()->end == wanted.end);
  expect(matcher.hit()->text == text.substr(wanted.start, wanted.end - wanted.start));
  expect(shown == text.substr(0, include ? wanted.end : wanted.start));
}

void check_reasoning(std::string_view text, ThinkMode think, ReasoningFormat format, uint32_t seed) {
  const ReasoningMode mode = reasoning_mode(think, format);
  ReasoningSplitter once(mode), pieces(mode);
  SplitText whole = once.feed(text), parts;
  const auto add = [](SplitText& to, const SplitText& more) {
    to.reasoning += more.reasoning;
    to.content += more.content;
  };
  add(whole, once.finish());
  in_pieces(text, seed, [&](std::string_view piece) { add(parts, pieces.feed(piece)); });
  add(parts, pieces.finish());
  expect(whole.reasoning == parts.reasoning && whole.content == parts.content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  std::string_view text = fuzz_text(data + 1, size - 1);
  std::string_view listed = take_until(text, "\n");
  std::vector<std::string> stops;
  while (!listed.empty() && stops.size() < 64) stops.emplace_back(take_until(listed, "|"));
  check_stops(stops, text, (choice & 1) != 0, choice);
  constexpr ThinkMode kModes[] = {ThinkMode::none, ThinkMode::fast, ThinkMode::fast_closed,
                                  ThinkMode::think_extreme};
  const auto format = (choice & 2) != 0 ? ReasoningFormat::split : ReasoningFormat::inline_text;
  check_reasoning(text, kModes[(choice >> 2) & 3], format, choice);
  return 0;
}
