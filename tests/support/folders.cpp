#include "support/folders.h"

namespace fulmar::support {

std::filesystem::path source_folder() { return FULMAR_SOURCE_DIR; }
std::filesystem::path build_folder() { return FULMAR_BINARY_DIR; }

}  // namespace fulmar::support
