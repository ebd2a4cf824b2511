// One table of op tests for every backend: primitives against double precision, islands that a backend
// overrides against their default composition, products with quantised weights against their decoders.
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
std::vector<OpsCase> format_cases();  // products with quantised weights of every kind

}  // namespace fulmar::support
