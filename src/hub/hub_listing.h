// A repository's files as its hub lists them, and the choice of those that a pull fetches. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "hub/hub_name.h"

namespace fulmar {

// The checksum by which a file is verified.
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
  int64_t size = -1;  // bytes; -1: unknown
  Checksum checksum;
};

// Parses the answer of /api/models/OWNER/NAME/tree/REVISION: an array of
// {"type","path","size","oid","lfs":{"oid","size"}}. Leaves out folders and files with unsafe paths.
Result<std::vector<HubFile>> parse_listing(const std::string& json);

// Returns the address with the relation "next" in a Link header (RFC 8288); empty: this was the last page.
std::string next_page(std::string_view link);

struct PullPlan {
  HubFile model;                      // the file asked for; unset where the plan takes a repository
  std::vector<HubFile> vocabularies;  // none or one; likewise
  // Not empty: a model in a folder of its own; small files first, then all weights.
  std::vector<HubFile> repository;
};

// Chooses the file asked for, or the only model there is; otherwise an error names the candidates. Shards at
// the top of the repository, and a model.safetensors beside a config.json, are taken together with their
// index, configuration, chat template and tokenizer.
Result<PullPlan> choose_files(const HubName& hub, const std::vector<HubFile>& files);

}  // namespace fulmar
