// The rules that choose a mode.
#include "text/think_mode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace fulmar {
namespace {

constexpr std::pair<std::string_view, ThinkMode> kThinkTypes[] = {
    {"none", ThinkMode::none},
    {"fast", ThinkMode::fast},
    {"free", ThinkMode::free},
    {"preferChinese", ThinkMode::prefer_chinese},
    {"prefer_chinese", ThinkMode::prefer_chinese},
    {"en", ThinkMode::think},
    {"enShort", ThinkMode::think_short},
    {"en_short", ThinkMode::think_short},
    {"enLong", ThinkMode::think_long},
    {"en_long", ThinkMode::think_long},
};

// "none" is missing: it means the route's way not to think.
constexpr std::pair<std::string_view, ThinkMode> kEfforts[] = {
    {"minimal", ThinkMode::think_minimal}, {"low", ThinkMode::think_short},     {"medium", ThinkMode::think},
    {"high", ThinkMode::think_long},       {"xhigh", ThinkMode::think_extreme},
};

template <size_t N>
std::optional<ThinkMode> look_up(const std::pair<std::string_view, ThinkMode> (&table)[N],
                                 std::string_view name) {
  for (const auto& [known, mode] : table) {
    if (known == name) return mode;
  }
  return std::nullopt;
}

bool is_g_part(std::string_view part) {
  if (part.size() < 2 || (part[0] != 'g' && part[0] != 'G') || (part[1] != '0' && part[1] != '1'))
    return false;
  part.remove_prefix(2);
  if (part.empty()) return true;
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return std::isalpha(static_cast<unsigned char>(part[0])) != 0 &&
         std::all_of(part.begin() + 1, part.end(), is_digit);
}

}  // namespace

bool is_thinking(ThinkMode mode) {
  return mode != ThinkMode::none && mode != ThinkMode::fast && mode != ThinkMode::fast_closed &&
         mode != ThinkMode::fast_line;
}

std::optional<ThinkMode> parse_think_type(std::string_view name) { return look_up(kThinkTypes, name); }

std::optional<ThinkTemplate> parse_think_template(std::string_view name) {
  if (name == "auto") return ThinkTemplate::automatic;
  if (name == "g1") return ThinkTemplate::g1;
  if (name == "none") return ThinkTemplate::none;
  return std::nullopt;
}

bool is_g_series(std::string_view model_name) {
  constexpr std::string_view kSeparators = "-_. /";
  for (;;) {
    const size_t end = model_name.find_first_of(kSeparators);
    if (is_g_part(model_name.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    model_name.remove_prefix(end + 1);
  }
}

bool thinks_by_default(ThinkTemplate choice, std::string_view model_name) {
  return choice == ThinkTemplate::automatic ? is_g_series(model_name) : choice == ThinkTemplate::g1;
}

Result<ThinkMode> choose_think_mode(const ThinkRequest& request, ThinkMode off, bool thinks) {
  const ThinkMode quiet = thinks ? off : ThinkMode::none;
  const auto effort = request.reasoning_effort ? look_up(kEfforts, *request.reasoning_effort) : std::nullopt;
  if (request.reasoning_effort && !effort && *request.reasoning_effort != "none") {
    return Error{ErrorKind::invalid,
                 fmt::format("reasoning_effort is '{}', wanted none, minimal, low, medium, high or xhigh",
                             *request.reasoning_effort)};
  }
  if (request.think_type) {
    if (const auto mode = parse_think_type(*request.think_type)) return *mode;
  }
  if (request.think.value_or(false) || request.enable_think.value_or(false)) return ThinkMode::free;
  if (request.think || request.enable_think) return quiet;
  return effort.value_or(quiet);
}

std::vector<int32_t> think_closers(const Tokenizer& tokenizer) {
  constexpr std::pair<int32_t, std::string_view> kClosers[] = {{111, "n"}, {754, "</"}};
  std::vector<int32_t> ids;
  for (const auto& [id, text] : kClosers) {
    if (tokenizer.bytes(id) != text) return {};
    ids.push_back(id);
  }
  return ids;
}

}  // namespace fulmar
