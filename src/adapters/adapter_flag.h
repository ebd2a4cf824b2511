// An adapter as the command line names it. Opens no file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "adapters/reading.h"
#include "base/result.h"

namespace fulmar {

struct AdapterFlag {
  std::string name;  // empty where none is wanted
  std::filesystem::path path;
  AdapterOptions options;
};

// Returns whether the text may name an adapter: 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-', and neither "."
// nor "..".
bool is_adapter_name(std::string_view text);

// Reads "PATH[,alpha=A][,scale=S][,init=FILE]". What follows a comma is part of the path unless it is a word
// with '='. Errors (invalid) name the part, found and wanted.
Result<AdapterFlag> read_adapter_flag(std::string_view text);

// Reads "NAME=" and the same.
Result<AdapterFlag> read_named_adapter_flag(std::string_view text);

}  // namespace fulmar
