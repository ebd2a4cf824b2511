// The options of commands that read an adapter's file, for what the file does not say.
#pragma once

#include "adapters/reading.h"

namespace CLI {
class App;
}

namespace fulmar {

// Adds --alpha, --scale and --init.
void add_adapter_options(CLI::App& command, AdapterOptions& options);

}  // namespace fulmar
