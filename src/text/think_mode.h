// Thinking in chats: chooses the assistant suffix of a request and related settings. Pure functions of what
// the request says; knows nothing of JSON or of the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace fulmar {

// The template defines the text of each mode.
enum class ThinkMode : uint8_t {
  none,            // for models that never saw a think block
  fast,            // an empty think block, in some templates with its last '>' left to the model
  fast_closed,     // the same, closed
  fast_line,       // the same, closed, and a newline
  free,            // the model thinks as it likes
  prefer_chinese,  // it begins in Chinese
  think,           // asked to think
  think_short,     // a bit
  think_long,      // a lot
  think_minimal,   // minimally
  think_extreme,   // extremely carefully
};

// Returns whether the prompt ends inside an open think block, so that the answer begins with thinking.
bool is_thinking(ThinkMode mode);

// Parses none, fast, free, preferChinese, en, enShort, enLong and their snake_case forms, else nothing.
std::optional<ThinkMode> parse_think_type(std::string_view name);

enum class ThinkTemplate : uint8_t { automatic, g1, none };
std::optional<ThinkTemplate> parse_think_template(std::string_view name);  // "auto", "g1", "none"
// Returns whether the name looks like that of a G-series model: "g0" or "g1", perhaps with a letter and a
// revision, as a part of its own ("rwkv7-g1a-0.4b", "rwkv7-g0a4-13.3b").
bool is_g_series(std::string_view model_name);
// Returns whether chats with this model end in a think suffix when the request says nothing.
bool thinks_by_default(ThinkTemplate choice, std::string_view model_name);

// The fields of a request; absent ones are empty.
struct ThinkRequest {
  std::optional<std::string> think_type;
  std::optional<bool> think;
  std::optional<bool> enable_think;
  std::optional<std::string> reasoning_effort;
};

// Chooses the mode: a valid think_type wins over the booleans, these over reasoning_effort, this over the
// default. `off` is the route's way not to think (fast, fast_closed or fast_line), for which a model that
// does not think by default (thinks_by_default) gets `none`. Error (invalid): an unknown reasoning_effort.
Result<ThinkMode> choose_think_mode(const ThinkRequest& request, ThinkMode off, bool thinks);

// Returns the ids to mask at kThinkGuardPositions, which would close a think block at once: those of "n" and
// "</" in the World vocabulary. Empty for vocabularies in which these ids have other bytes.
std::vector<int32_t> think_closers(const Tokenizer& tokenizer);
inline constexpr int64_t kThinkGuardPositions[] = {1, 2};  // of the generated tokens, counted from 0

}  // namespace fulmar
