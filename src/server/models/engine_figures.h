// The figures of several engines as one.
#pragma once

#include "base/owner.h"
#include "engine/stats.h"

namespace fulmar {

// Counters, gauges and speeds added up, lists joined; the slots of `b` come after those of `a`.
EngineStats add_up(const EngineStats& a, const EngineStats& b);

// What stays of an engine that has ended: counters, which never fall, and when it began.
EngineStats counters_of(const EngineStats& stats);

// Of an engine that takes no requests any more: what it still runs counts, its free slots do not.
EngineStats leaving_figures(EngineStats stats);

// Without what the owner does not see: others' requests are missing, their slots hidden.
EngineStats hide_others(EngineStats stats, const Owner& owner);

}  // namespace fulmar
