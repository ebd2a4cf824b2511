// Writes as much as fits where not everything does. Knows no store.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cache/session_store.h"

namespace fulmar {

// Returns the writes, in order, in pieces of at most `most_bytes`; a larger write is a piece.
std::vector<std::span<const SessionWrite>> pieces_of(std::span<const SessionWrite> writes, size_t most_bytes);

// Writes in one transaction: all or, with an Error, none. Returns of each whether it is stored or refused.
using StoreTogether = std::function<Result<std::vector<bool>>(std::span<const SessionWrite>)>;

// Stores the writes, in order, in as few transactions as there is room for. Where a transaction finds no room
// (an Error of kind resource) its halves are tried. Writes as large as a single one that found no room are
// not tried. Any other Error becomes that of all that were not stored yet. Returns as SessionStore::store().
std::vector<Result<bool>> store_what_fits(std::span<const SessionWrite> writes, const StoreTogether& store);

}  // namespace fulmar
