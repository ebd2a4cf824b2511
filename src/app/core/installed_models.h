// What lies in the folder of models: what `fulmar pull` has brought and what people have put there.
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

// The folder of this user's data.
std::filesystem::path models_folder();

// The name of the vocabulary's file beside a model; empty: none. Reads files that may be one.
std::string vocabulary_beside(const InstalledFiles& model);

// By file name; reads names and sizes only. A folder that is not there holds none.
std::vector<InstalledFiles> installed_models(const std::filesystem::path& folder);

// The whole model that `name` means: as it was pulled, perhaps behind "hf.co/" or with the tag ":latest", or
// as
// --model takes it. Nothing outside of the folder is ever meant.
std::optional<InstalledFiles> find_installed(const std::filesystem::path& folder, std::string_view name);

}  // namespace fulmar
