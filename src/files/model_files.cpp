// Looking through a folder, and reading the index of shards.
#include "files/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "base/read_file.h"
#include "files/bytes.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 10'000;
constexpr size_t kMostShards = 10'000;
constexpr size_t kLargestIndex = size_t{64} << 20;
constexpr const char* kUsualName = "model.safetensors";  // of the only file of a repository
constexpr std::string_view kIndexEnding = ".safetensors.index.json";

Error corrupt(std::string text) { return {ErrorKind::corrupt, std::move(text)}; }

// "<stem>-00002-of-00003.safetensors" taken apart.
struct ShardName {
  std::string stem;
  std::string ending;
  size_t number = 0;  // from 1
  size_t total = 0;
};

std::optional<size_t> parse_digits(std::string_view text) {
  constexpr size_t kDigits = 5;
  size_t value = 0;
  if (text.size() != kDigits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ShardName> parse_shard_name(const std::string& name) {
  constexpr size_t kTail = sizeof("-00001-of-00002") - 1;
  const fs::path path(name);
  ShardName shard{.ending = path.extension().string()};
  const std::string whole = path.stem().string();
  if ((shard.ending != ".safetensors" && shard.ending != ".gguf") || whole.size() <= kTail)
    return std::nullopt;
  const std::string_view tail = std::string_view(whole).substr(whole.size() - kTail);
  const auto number = parse_digits(tail.substr(1, 5)), total = parse_digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !total) return std::nullopt;
  if (*number < 1 || *number > *total || *total > kMostShards) return std::nullopt;
  shard.stem = whole.substr(0, whole.size() - kTail);
  shard.number = *number, shard.total = *total;
  return shard;
}

std::string shard_name(const ShardName& shard, size_t number) {
  return fmt::format("{}-{:05}-of-{:05}{}", shard.stem, number, shard.total, shard.ending);
}

// Returns the names of the regular files in a folder, sorted.
Result<std::set<std::string>> names_in(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    if (!entry->is_regular_file(unreadable)) continue;
    names.insert(entry->path().filename().string());
    if (names.size() > kMostEntries) {
      return Error{ErrorKind::invalid, fmt::format("{}: more than {} files; wanted a folder with one model",
                                                   folder.string(), kMostEntries)};
    }
  }
  if (error) return Error{ErrorKind::io, fmt::format("{}: {}", folder.string(), error.message())};
  return names;
}

// One model of a folder: what it is called in an error, and its files.
struct FoundModel {
  std::string title;
  std::vector<std::string> weights;
  std::map<std::string, std::string> shard_of;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

// Checks that the index names all shards that belong together by their names.
Status check_sets(const std::string& index, const std::set<std::string>& shards) {
  for (const std::string& name : shards) {
    const auto shard = parse_shard_name(name);
    for (size_t number = 1; shard && number <= shard->total; number++) {
      if (shards.contains(shard_name(*shard, number))) continue;
      return corrupt(fmt::format("{} names '{}' but not '{}'", index, printable(name),
                                 printable(shard_name(*shard, number))));
    }
  }
  return {};
}

// Reads {"weight_map": {tensor: shard}}.
Result<FoundModel> read_index(const fs::path& folder, const std::string& name,
                              const std::set<std::string>& names) {
  FULMAR_ASSIGN(const std::string text, read_file(folder / name, kLargestIndex));
  simdjson::dom::parser parser;
  simdjson::dom::object map;
  if (parser.parse(text).at_key("weight_map").get(map) != simdjson::SUCCESS) {
    return corrupt(fmt::format("{} is no index of shards; wanted JSON with an object weight_map", name));
  }
  FoundModel candidate{.title = name};
  std::set<std::string> shards;
  for (const simdjson::dom::key_value_pair entry : map) {
    std::string_view shard;
    if (entry.value.get(shard) != simdjson::SUCCESS || !is_plain_name(shard)) {
      return corrupt(fmt::format("{}: the shard of '{}' is no file name", name, printable(entry.key)));
    }
    shards.emplace(shard);
    candidate.shard_of.emplace(entry.key, shard);
  }
  if (shards.empty()) return corrupt(name + " names no shards");
  for (const std::string& shard : shards) {
    if (!names.contains(shard)) {
      return corrupt(fmt::format("{} names the shard '{}', which is not there", name, printable(shard)));
    }
  }
  FULMAR_TRY(check_sets(name, shards));
  candidate.weights.assign(shards.begin(), shards.end());
  return candidate;
}

// Returns all shards that belong together by their names.
Result<FoundModel> gather_shards(const ShardName& shard, const std::set<std::string>& names) {
  FoundModel candidate{.title = shard_name(shard, 1)};
  for (size_t number = 1; number <= shard.total; number++) {
    std::string name = shard_name(shard, number);
    if (!names.contains(name)) {
      return corrupt(fmt::format("the shard '{}' is not there; wanted all {}", printable(name), shard.total));
    }
    if (shard.ending == ".safetensors" || number == 1) candidate.weights.push_back(std::move(name));
  }
  return candidate;
}

Result<std::vector<FoundModel>> candidates_of(const fs::path& folder, const std::set<std::string>& names) {
  std::vector<FoundModel> found;
  std::set<std::string> taken;  // shards that an index names, and whole sets
  for (const std::string& name : names) {
    if (!name.ends_with(kIndexEnding)) continue;
    FULMAR_ASSIGN(FoundModel candidate, read_index(folder, name, names));
    for (const std::string& shard : candidate.weights) {
      taken.insert(shard);
      if (const auto parts = parse_shard_name(shard)) taken.insert(shard_name(*parts, 1));
    }
    found.push_back(std::move(candidate));
  }
  for (const std::string& name : names) {
    if (!is_weights_name(name) || taken.contains(name)) continue;
    const auto shard = parse_shard_name(name);
    if (!shard) {
      found.push_back({name, {name}, {}});
    } else if (taken.insert(shard_name(*shard, 1)).second) {
      FULMAR_ASSIGN(FoundModel candidate, gather_shards(*shard, names));
      found.push_back(std::move(candidate));
    }
  }
  return found;
}

}  // namespace

bool is_weights_name(const std::string& name) {
  const fs::path path(name);
  const std::string ending = path.extension().string();
  const bool weights = std::ranges::find(kWeightsEndings, ending) != std::end(kWeightsEndings);
  return weights && path.stem().extension() != ".state";
}

Result<ModelFiles> find_model_files(const fs::path& path) {
  std::error_code error;
  const bool index = path.filename().string().ends_with(kIndexEnding);
  if (!index && !fs::is_directory(path, error)) {
    return ModelFiles{path.parent_path(), {path}, {}, path.filename() == kUsualName};
  }
  const fs::path folder = index ? path.parent_path() : path;
  FULMAR_ASSIGN(const std::set<std::string> names, names_in(folder.empty() ? fs::path(".") : folder));
  auto candidates = candidates_of(folder, names);
  if (!candidates.ok()) {
    return Error{candidates.error().kind, fmt::format("{}: {}", folder.string(), candidates.error().text)};
  }
  if (candidates->empty()) {
    return Error{ErrorKind::not_found, fmt::format("{}: no weights there; wanted {}", folder.string(),
                                                   fmt::join(kWeightsEndings, ", "))};
  }
  if (candidates->size() > 1) {
    std::vector<std::string> titles;
    for (const FoundModel& candidate : *candidates) titles.push_back(printable(candidate.title));
    return Error{ErrorKind::invalid, fmt::format("{}: several models there ({}); name one of these files",
                                                 folder.string(), fmt::join(titles, ", "))};
  }
  ModelFiles files{.folder = folder, .repository = true};
  for (const std::string& name : candidates->front().weights) files.weights.push_back(folder / name);
  files.shard_of = std::move(candidates->front().shard_of);
  return files;
}

}  // namespace fulmar
