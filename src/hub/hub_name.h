// What `fulmar pull` is asked for, and what its files are called here. Pure functions; names come from
// strangers, so nothing that could leave the folder of models passes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

// OWNER/NAME[:FILE], perhaps behind "hf.co/", which names no host here
struct HubName {
  std::string owner, name;
  std::string file;  // path inside the repository; empty: to be chosen
};

// Owner and name: letters, digits and "-._", beginning with a letter or digit. The file: see is_safe_path.
Result<HubName> parse_hub_name(std::string_view text);

// A relative path of visible parts: no empty one, none that begins with a dot, no backslash or control
// character.
bool is_safe_path(std::string_view path);

// What the model is called here: `as` with the file's ending, or else the file's own name; names that every
// repository uses ("model", "pytorch_model") become the repository's. Refuses an `as` that is no plain name.
Result<std::string> local_model_name(const HubName& hub, std::string_view file, std::string_view as);

// Likewise for a model that keeps its folder: `as` or the repository's name.
Result<std::string> local_folder_name(const HubName& hub, std::string_view as);

// What the vocabulary of that model is called here: the World vocabulary keeps its name, since it serves
// many.
std::string local_vocabulary_name(std::string_view vocabulary_file, std::string_view local_model);

}  // namespace fulmar
