#include "load/workload.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include "net/json.h"

namespace fulmar {
namespace {

constexpr int64_t kLeastTokens = 4, kMostPrompt = 1024, kMostTotal = 2048;
constexpr double kPromptMedian = 64, kAnswerMedian = 128, kSpread = 1.0;

// The standard library's distributions differ between implementations; its generators do not.
class Draws {
 public:
  explicit Draws(uint64_t seed) : generator_(seed) {}
  // Returns a number in (0, 1].
  double uniform() { return (static_cast<double>(generator_() >> 11) + 1) * 0x1p-53; }
  double exponential(double mean) { return -mean * std::log(uniform()); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  size_t below(size_t bound) { return generator_() % bound; }

 private:
  std::mt19937_64 generator_;
};

int64_t log_normal(Draws& draws, double median) {
  return std::lround(median * std::exp(kSpread * draws.normal()));
}

}  // namespace

std::vector<double> arrival_times(size_t count, double rate, uint64_t seed) {
  Draws draws(seed);
  std::vector<double> times;
  double now = 0;
  for (size_t i = 0; i < count; i++) {
    times.push_back(now);
    if (std::isfinite(rate)) now += draws.exponential(1 / rate);
  }
  return times;
}

bool is_kept(const RequestLength& length) {
  return length.prompt >= kLeastTokens && length.answer >= kLeastTokens && length.prompt <= kMostPrompt &&
         length.prompt + length.answer <= kMostTotal;
}

std::vector<RequestLength> chat_lengths(size_t count, uint64_t seed) {
  Draws draws(seed);
  std::vector<RequestLength> lengths;
  while (lengths.size() < count) {
    const int64_t prompt = log_normal(draws, kPromptMedian);
    const RequestLength length{prompt, log_normal(draws, kAnswerMedian)};
    if (is_kept(length)) lengths.push_back(length);
  }
  return lengths;
}

std::string filler_text(size_t bytes, uint64_t seed) {
  static constexpr std::string_view kWords[] = {
      "harbour", "lantern", "seven",  "the",   "a",       "wind",  "crossed", "over",  "gull",  "and",
      "stone",   "quiet",   "letter", "under", "morning", "boat",  "of",      "rope",  "salt",  "was",
      "north",   "carried", "window", "in",    "rain",    "paper", "which",   "early", "light", "to"};
  Draws draws(seed);
  std::string text;
  while (text.size() < bytes) {
    if (!text.empty()) text += ' ';
    text += kWords[draws.below(std::size(kWords))];
  }
  text.resize(bytes);
  if (!text.empty() && text.back() == ' ') text.back() = '.';
  return text;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_conversations(const std::string& json) {
  // Such files are far larger than any request.
  constexpr JsonLimits kLimits{.max_bytes = size_t{4} << 30, .max_values = size_t{256} << 20};
  FULMAR_ASSIGN(const JsonValue document, parse_json(json, kLimits));
  if (!document.is_array()) {
    return Error{ErrorKind::corrupt, "the conversations are " + describe(document) + "; wanted an array"};
  }
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const JsonValue& entry : document.as_array()) {
    const JsonValue* turns = entry.find("conversations");
    if (!turns || !turns->is_array() || turns->as_array().size() < 2) continue;
    const JsonValue* first = turns->as_array()[0].find("value");
    const JsonValue* second = turns->as_array()[1].find("value");
    if (first && second && first->is_string() && second->is_string()) {
      pairs.emplace_back(first->as_string(), second->as_string());
    }
  }
  return pairs;
}

std::vector<size_t> shuffled(size_t count, uint64_t seed) {
  Draws draws(seed);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t remaining = count; remaining > 1; remaining--)
    std::swap(order[remaining - 1], order[draws.below(remaining)]);
  return order;
}

}  // namespace fulmar
