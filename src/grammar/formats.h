// The values of `format` that are supported, as automata. Each is made at its first use and never freed: it
// is the same in every schema, and no budget pays for it.
#pragma once

#include <string_view>

#include "grammar/text_automaton.h"

namespace fulmar {

// Returns the strings that are written for the format, perhaps fewer than it admits; null: the format is
// ignored here.
const TextAutomaton* format_texts(std::string_view format);
// Returns all strings that any reader accepts for the format; null: unknown.
const TextAutomaton* widest_format_texts(std::string_view format);

}  // namespace fulmar
