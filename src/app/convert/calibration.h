// Computes a model's importance matrix from a text: how large the inputs of each large matrix are, so that
// quantisation spares the columns that matter.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "files/quantised.h"

namespace fulmar {

constexpr size_t kMostCalibrationTokens = 16384;
constexpr size_t kLeastCalibrationTokens = 64;

struct CalibrationOptions {
  std::filesystem::path model;
  // A text file, or a .jsonl file of {skill, prompt, answer}, each read by itself from the zero state. The
  // first kMostCalibrationTokens tokens count.
  std::filesystem::path text;
  std::string vocab;  // file; empty: chosen from the model
  std::function<void(double fraction)> progress;
};

// Returns the mean square of each input of every large matrix, relative to the matrix's own mean, and a small
// number for inputs that are always zero. Computes on the CPU with every core. Fails for texts that cannot be
// read and for those of too few tokens, with both numbers.
Result<Importance> calibrate(const CalibrationOptions& options);

}  // namespace fulmar
