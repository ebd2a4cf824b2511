// The importance matrix of a model from a text: how large the inputs are that the text makes it feed each of
// its large matrices, so that their quantisation spares the columns that count.
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
  // A text file, or a .jsonl file of {skill, prompt, answer}, each of which is read by itself from the zero
  // state. The first kMostCalibrationTokens tokens count.
  std::filesystem::path text;
  std::string vocab;  // file; empty: chosen from the model
  std::function<void(double fraction)> progress;
};

// The mean square of each input of every large matrix, as a share of the matrix's own mean, and a small share
// for inputs that the text leaves at zero. Computes on the CPU with every core. Refuses texts that cannot be
// read and those of too few tokens, with both numbers.
Result<Importance> calibrate(const CalibrationOptions& options);

}  // namespace fulmar
