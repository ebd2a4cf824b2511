// How a request looks on status pages.
#pragma once

#include "engine/sequence.h"
#include "engine/stats.h"

namespace fulmar {

// The request itself and the rows that are over; rows still waiting or running are added with add_row.
RequestStatus status_of(const RequestRecord& request);
void add_row(RequestStatus& status, const Sequence& sequence);
void add_waiting(RequestStatus& status, const RequestStatus& sums);  // of rows that wait

}  // namespace fulmar
