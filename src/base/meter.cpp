// The meter of each thread.
#include "base/meter.h"

#include <utility>

namespace fulmar {
namespace {

constinit thread_local Meter* meter_of_thread = nullptr;

}  // namespace

Meter::Scope::Scope(Meter& meter) : outer_(std::exchange(meter_of_thread, &meter)) {}
Meter::Scope::~Scope() { meter_of_thread = outer_; }

Meter* current_meter() { return meter_of_thread; }

}  // namespace fulmar
