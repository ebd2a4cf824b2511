// An adapter's file in the form of another program, for fulmar convert.
#pragma once

#include <string>

#include "adapters/reading.h"
#include "base/result.h"

namespace fulmar {

struct ConvertAdapterFlags {
  std::string in, out;
  std::string to;    // peft, lightning or gguf; empty: by the ending of `out`
  std::string base;  // the model it is for; empty: not needed
  AdapterOptions options;
  bool force = false;
};

// Reads the adapter, compares it with the base model where there is one, and writes it. Errors name what the
// form cannot hold.
Status convert_adapter(const ConvertAdapterFlags& flags);

}  // namespace fulmar
