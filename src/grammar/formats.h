// The values of `format` that are kept, as automata. Each is made at its first use and kept for good: it is
// the same in every schema, and nobody pays for it.
#pragma once

#include <string_view>

#include "grammar/text_automaton.h"

namespace fulmar {

// Returns the strings of the format that are written, which may be fewer than it admits; null: it asks for
// nothing here.
const TextAutomaton* format_texts(std::string_view format);
// Returns all strings that anybody takes for one of this format; null: they are not known.
const TextAutomaton* widest_format_texts(std::string_view format);

}  // namespace fulmar
