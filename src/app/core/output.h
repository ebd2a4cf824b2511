// Standard output, on which commands show their results: what cannot be written there is told.
#pragma once

#include "base/result.h"

namespace fulmar {

// Writes what standard output still holds back. Errors (kind_of_refusal()) name it and the system's reason,
// also where something before could not be written; it counts as told then.
Status flush_output();

}  // namespace fulmar
