// The name that `fulmar pull` gets, and local names for its files. Pure functions. Names are untrusted: none
// may lead outside the folder of models.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// OWNER/NAME[:FILE]; "hf.co/" before it is accepted and ignored
struct HubName {
  std::string owner, name;
  std::string file;  // path inside the repository; empty: to be chosen
};

// Parses a name; OWNER and NAME: letters, digits, "-._", first a letter or digit; FILE: see is_safe_path.
Result<HubName> parse_hub_name(std::string_view text);

// Returns whether the path is relative and its parts are visible: none is empty or begins with a dot, and
// there is no backslash or control character.
bool is_safe_path(std::string_view path);

// Returns the model's local name: `as` with the file's ending, else the file's own name; for names that every
// repository uses ("model", "pytorch_model") the repository's. Refuses an `as` that is not a plain file name.
Result<std::string> local_model_name(const HubName& hub, std::string_view file, std::string_view as);

// Returns the local name of a model that keeps its folder: `as` or the repository's name.
Result<std::string> local_folder_name(const HubName& hub, std::string_view as);

// Returns the local name of that model's vocabulary; the World vocabulary keeps its name, since many models
// share it.
std::string local_vocabulary_name(std::string_view vocabulary_file, std::string_view local_model);

}  // namespace fulmar
