// A repository's files as its hub lists them, and which of them a pull takes. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/hub_name.h"

namespace fulmar {

// How a file proves that it is the one meant.
struct Checksum {
  enum class Kind : uint8_t {
    none,
    sha256,
    git_blob
  };  // git_blob: SHA-1 over "blob <size>\0" and the content
  Kind kind = Kind::none;
  std::string hex;  // lower case
};

struct HubFile {
  std::string path;
  int64_t size = -1;  // bytes; -1: not told
  Checksum checksum;
};

// The answer of /api/models/OWNER/NAME/tree/REVISION: an array of
// {"type","path","size","oid","lfs":{"oid","size"}}. Folders and files with unsafe paths are left out.
Result<std::vector<HubFile>> parse_listing(const std::string& json);

// The address with the relation "next" in a Link header (RFC 8288); empty: this was the last page.
std::string next_page(std::string_view link);

struct PullPlan {
  HubFile model;                      // the file asked for; unset where the plan takes a repository
  std::vector<HubFile> vocabularies;  // none or one; likewise
  // Not empty: a model in a folder of its own, the small files first, then all weights.
  std::vector<HubFile> repository;
};

// The file asked for, or the only model there is; else an error that names the candidates. Shards at the top
// of the repository, and a model.safetensors beside a config.json, are taken with all that belongs to them:
// their index, configuration, chat template and tokenizer.
Result<PullPlan> choose_files(const HubName& hub, const std::vector<HubFile>& files);

}  // namespace fulmar
