// Writes a model in the format that its file's ending says. Shared by the commands that make model files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/model_config.h"

namespace fulmar {

struct OutputFlags {
  std::string out;    // the file to write
  std::string vocab;  // to put into a .gguf; empty: chosen from the model
  bool force = false, quiet = false;
};

enum class OutputKind : uint8_t { gguf, safetensors, pth };

std::string_view ending_of(OutputKind kind);
// Returns the format that the ending asks for; nothing for other endings.
std::optional<OutputKind> target_of(const OutputFlags& flags);

// Fails for a format that cannot be written, and for an existing file.
Status check_target(const OutputFlags& flags);

// Writes the model of the file `in`; the target has been checked.
Status write_model(const OutputFlags& flags, const std::filesystem::path& in, const Checkpoint& checkpoint,
                   const ModelConfig& config);

// Prints the sizes of both files.
void print_written(const std::string& in, const std::string& out);

}  // namespace fulmar
