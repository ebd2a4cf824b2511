// Collectives through host memory, for any devices and for those without peer access.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/collective.h"
#include "ops/ops.h"

namespace fulmar {

// Makes the ends of a group, in the order of its devices, which outlive them. Every call waits for its
// device.
std::vector<std::unique_ptr<Collective>> make_host_collectives(std::span<Ops* const> group,
                                                               const CollectiveOptions& options);

}  // namespace fulmar
