// The content of the folder of models: what `fulmar pull` has brought and what people have put there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

struct InstalledFiles {
  std::string name;       // as --model takes it
  std::string pulled_as;  // OWNER/NAME[:FILE]; empty: not pulled
  std::filesystem::path path;
  std::string file;  // for people: a folder ends in a slash
  uintmax_t bytes = 0;
  bool partial = false;  // a download that has not ended
};

// Returns the folder of models in this user's data.
std::filesystem::path models_folder();

// Returns the file name of the vocabulary in a model's folder; empty: none. Reads files that may be one.
std::string vocabulary_beside(const InstalledFiles& model);

// Returns the models by file name; reads names and sizes only. A folder that does not exist holds none.
std::vector<InstalledFiles> installed_models(const std::filesystem::path& folder);

// Returns the complete model that `name` means: the name it was pulled by, with or without
// "hf.co/" before it or the tag ":latest" after it, or the name that --model takes. Never
// returns anything outside of the folder.
std::optional<InstalledFiles> find_installed(const std::filesystem::path& folder, std::string_view name);

}  // namespace fulmar
