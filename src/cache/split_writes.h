// Writing as much as fits where not all does. Knows no store.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cache/session_store.h"

namespace fulmar {

// Returns the writes, in their order, as pieces of at most so many bytes; a larger write is a piece.
std::vector<std::span<const SessionWrite>> pieces_of(std::span<const SessionWrite> writes, size_t most_bytes);

// One transaction: all of them or, with an Error, none. Returns of each whether it is stored or refused.
using StoreTogether = std::function<Result<std::vector<bool>>(std::span<const SessionWrite>)>;

// Stores the writes in as few transactions as there is room for, in their order. Where one finds no room (an
// Error of kind resource) its halves are tried. What is as large as a single write that found no room is not
// tried again. Any other Error is that of all that were not stored yet. Returns as SessionStore::store().
std::vector<Result<bool>> store_what_fits(std::span<const SessionWrite> writes, const StoreTogether& store);

}  // namespace fulmar
