// One table of op tests for every backend: primitives against double precision, islands that a backend
// overrides against their default composition.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fulmar::support {

struct OpsCase {
  std::string name;  // letters, digits and underscores
  std::function<void(Ops&)> run;
};

inline std::ostream& operator<<(std::ostream& out, const OpsCase& one) { return out << one.name; }

std::vector<OpsCase> primitive_cases();
std::vector<OpsCase> island_cases();

}  // namespace fulmar::support
