// Finds the files of the model at a path: the file itself, or those in a folder. Knows names and the index of
// shards, not what is in the weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct ModelFiles {
  std::filesystem::path folder;                // that holds the files
  std::vector<std::filesystem::path> weights;  // one file, or all shards in the order of their numbers
  // The file name of the shard that has each tensor; empty without an index.
  std::map<std::string, std::string> shard_of;
  bool repository = false;  // config.json and the like beside the weights belong to them
};

// File name endings of weights.
inline constexpr std::string_view kWeightsEndings[] = {".pth", ".safetensors", ".st", ".gguf", ".rwkvq"};

// Returns whether a file's name has such an ending; not for tuned states (".state.pth").
bool is_weights_name(const std::string& name);

// Finds the files. A file is taken as it is; an index of shards ("*.safetensors.index.json") stands for its
// folder. In a folder: the shards of its index; all shards "<stem>-0000N-of-0000M.safetensors"; the first of
// those of a GGUF file, whose reader finds the others; else the only file of weights. Errors name the folder
// and what is there: not_found without weights, invalid with several models, corrupt for a missing shard and
// for an invalid index.
Result<ModelFiles> find_model_files(const std::filesystem::path& path);

}  // namespace fulmar
