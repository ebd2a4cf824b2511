// Which files make up the model that a path means: the file itself, or what a folder holds. Knows names and
// the index of shards, not what lies in the weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct ModelFiles {
  std::filesystem::path folder;                // that the files lie in
  std::vector<std::filesystem::path> weights;  // one file, or all shards in the order of their numbers
  // Which shard each tensor lies in, by its file name; empty where no index says so.
  std::map<std::string, std::string> shard_of;
  bool repository = false;  // config.json and the like beside the weights belong to them
};

// Endings of files that hold weights.
inline constexpr std::string_view kWeightsEndings[] = {".pth", ".safetensors", ".st", ".gguf", ".rwkvq"};

// Whether a file's name ends so; not those of tuned states (".state.pth").
bool is_weights_name(const std::string& name);

// A file is taken as it is, an index of shards ("*.safetensors.index.json") stands for its folder. In a
// folder: the shards of its index; all shards "<stem>-0000N-of-0000M.safetensors"; the first of those of a
// GGUF file, whose reader finds the others; else the only file of weights. Errors name the folder and what is
// there: not_found without weights, invalid with several models, corrupt for a shard that is missing and for
// an index that is none.
Result<ModelFiles> find_model_files(const std::filesystem::path& path);

}  // namespace fulmar
