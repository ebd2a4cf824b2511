#include "base/version.h"

namespace fulmar {

std::string_view program_version() { return FULMAR_VERSION; }

}  // namespace fulmar
