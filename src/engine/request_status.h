// A request as status pages show it.
#pragma once

#include "engine/sequence.h"
#include "engine/stats.h"

namespace fulmar {

// Returns the status of the request and its ended rows; waiting and running rows are added by add_row and
// add_waiting.
RequestStatus status_of(const RequestRecord& request);
void add_row(RequestStatus& status, const Sequence& sequence);
void add_waiting(RequestStatus& status, const RequestStatus& sums);  // of rows that wait

}  // namespace fulmar
