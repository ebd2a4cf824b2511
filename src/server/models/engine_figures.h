// Adds up the figures of several engines.
#pragma once

#include "base/owner.h"
#include "engine/stats.h"

namespace fulmar {

// Adds up counters, gauges and speeds and joins lists; the slots of `b` come after those of `a`.
EngineStats add_up(const EngineStats& a, const EngineStats& b);

// Returns what remains of an engine that has ended: its counters, so that sums never fall, and its start
// time.
EngineStats counters_of(const EngineStats& stats);

// Returns the figures of an engine that accepts no more requests, with only the slots that are in use.
EngineStats leaving_figures(EngineStats stats);

// Removes other owners' requests and hides the details of their slots.
EngineStats hide_others(EngineStats stats, const Owner& owner);

}  // namespace fulmar
