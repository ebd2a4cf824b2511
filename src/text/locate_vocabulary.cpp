// The order of places to look at, and the effects around it.
#include "text/locate_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/log.h"
#include "base/read_file.h"
#include "base/user_folder.h"
#include "base/write_file.h"
#include "text/byte_tokenizer.h"
#include "text/vocabulary.h"
#include "text/world_tokenizer.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

fs::path if_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path : fs::path();
}

// Returns whether it names a file of the same folder: a model file may name no other place.
bool is_plain_name(const std::string& name) {
  return name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Result<VocabularyFacts> look(const VocabularyQuery& query) {
  VocabularyFacts facts;
  facts.told = query.explicit_vocabulary;
  facts.model_rows = query.model_rows;
  facts.world_imported = if_file(vocabulary_folder() / kWorldFileName);
  if (query.model_path.empty()) return facts;
  std::error_code error;
  const bool is_folder = fs::is_directory(query.model_path, error);
  const fs::path folder = is_folder ? query.model_path : query.model_path.parent_path();
  if (is_folder && facts.told.empty()) {
    FULMAR_ASSIGN(facts.in_folder, find_folder_vocabulary(folder, query.model_rows));
  }
  facts.model = query.model_path.filename().string();
  facts.named = query.named_in_model;
  if (!facts.named.empty() && is_plain_name(facts.named)) facts.named_file = if_file(folder / facts.named);
  facts.model_own = if_file(folder / (query.model_path.stem().string() + ".vocab.txt"));
  facts.world_beside = if_file(folder / kWorldFileName);
  return facts;
}

Error nothing_found(const VocabularyFacts& facts) {
  if (facts.model_rows == kWorldRows) {
    return {
        ErrorKind::not_found,
        fmt::format("model '{}' needs the World vocabulary ({}), which is not on this machine: run `fulmar "
                    "tokenizer import FILE`, put the file beside the model, or give it with --vocab FILE",
                    facts.model, kWorldFileName)};
  }
  const std::string own = fs::path(facts.model).stem().string() + ".vocab.txt";
  return {
      ErrorKind::not_found,
      fmt::format("model '{}' has a vocabulary of {} tokens, which belongs to none of the known ones (256: "
                  "bytes, {}: World): put its file beside the model as {}, or give it with --vocab FILE",
                  facts.model, facts.model_rows, kWorldRows, own)};
}

Result<std::string> read_vocabulary(const fs::path& path) {
  auto text = read_file(path, kMaxVocabularyFileBytes);
  if (text.ok()) return text;
  return Error{text.error().kind, "vocabulary " + text.error().text};
}

Result<Vocabulary> parse_file(const fs::path& path) {
  FULMAR_ASSIGN(const std::string text, read_vocabulary(path));
  return parse_any_vocabulary(text, fmt::format("'{}'", path.string()));
}

bool looks_like_vocabulary(const fs::path& file) {
  const std::string name = file.filename().string(), ending = file.extension().string();
  if (name == "tokenizer.json") return true;
  return (ending == ".txt" || ending == ".json") && name.find("vocab") != std::string::npos;
}

// Returns the candidates of a folder sorted by name, so that the same one is found every time.
std::vector<fs::path> vocabulary_files(const fs::path& folder) {
  constexpr size_t kMost = 64;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (looks_like_vocabulary(entry->path()) && files.size() < kMost) files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Writes beside the target, then renames: readers see the old file, none, or the whole new one.
Status install(const std::string& text, const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  return write_whole_file(target, text);
}

}  // namespace

Result<fs::path> find_folder_vocabulary(const fs::path& folder, int64_t model_rows) {
  fs::path found;
  std::string digest;
  for (const fs::path& file : vocabulary_files(folder)) {
    const Result<Vocabulary> vocabulary = parse_file(file);
    if (!vocabulary.ok()) {
      spdlog::debug("not taken for a vocabulary: {}", vocabulary.error().text);
      continue;
    }
    const std::string own = vocabulary_digest(*vocabulary);
    if (!found.empty() && own != digest) {
      return Error{ErrorKind::invalid,
                   fmt::format("'{}' and '{}' are two different vocabularies: give the model's "
                               "own with --vocab FILE",
                               found.string(), file.string())};
    }
    if (model_rows == kWorldRows && !is_world_vocabulary(*vocabulary)) {
      return Error{
          ErrorKind::invalid,
          fmt::format("'{}' holds {} tokens that are not those of the World vocabulary, which a model of "
                      "{} rows wants: give one with --vocab FILE",
                      file.string(), vocabulary->entries.size(), model_rows)};
    }
    if (found.empty()) found = file;
    digest = own;
  }
  return found;
}

Result<VocabularyChoice> choose_vocabulary(const VocabularyFacts& facts) {
  if (!facts.told.empty()) return VocabularyChoice(facts.told);
  if (!facts.named_file.empty()) return VocabularyChoice(facts.named_file);
  if (!facts.named.empty() && facts.named != kWorldFileName) {
    return Error{
        ErrorKind::not_found,
        fmt::format("model '{}' names the vocabulary '{}', which is not beside it: put it there, or give "
                    "one with --vocab FILE",
                    facts.model, facts.named)};
  }
  if (!facts.model_own.empty()) return VocabularyChoice(facts.model_own);
  if (!facts.in_folder.empty()) return VocabularyChoice(facts.in_folder);
  if (facts.model_rows == ByteTokenizer::kVocabularySize) return VocabularyChoice();
  if (facts.model_rows == kWorldRows && !facts.world_beside.empty())
    return VocabularyChoice(facts.world_beside);
  if (facts.model_rows == kWorldRows && !facts.world_imported.empty()) {
    return VocabularyChoice(facts.world_imported);
  }
  return nothing_found(facts);
}

Result<std::unique_ptr<Tokenizer>> open_vocabulary_file(const fs::path& path) {
  FULMAR_ASSIGN(const Vocabulary vocabulary, parse_file(path));
  const bool world = is_world_vocabulary(vocabulary);
  return std::unique_ptr<Tokenizer>(std::make_unique<WorldTokenizer>(vocabulary, world));
}

Result<std::unique_ptr<Tokenizer>> choose_tokenizer(const VocabularyQuery& query) {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string source;
  if (query.explicit_vocabulary.empty() && !query.in_model.entries.empty()) {
    tokenizer = std::make_unique<WorldTokenizer>(query.in_model, false);
    source = "of the model file";
  } else {
    FULMAR_ASSIGN(const VocabularyFacts facts, look(query));
    FULMAR_ASSIGN(const VocabularyChoice choice, choose_vocabulary(facts));
    if (!choice) return std::unique_ptr<Tokenizer>(std::make_unique<ByteTokenizer>());
    FULMAR_ASSIGN(tokenizer, open_vocabulary_file(*choice));
    source = fmt::format("'{}'", choice->string());
  }
  if (query.model_rows > 0 && tokenizer->vocabulary_size() > query.model_rows) {
    return Error{ErrorKind::invalid, fmt::format("vocabulary {} has ids up to {}, model '{}' has {} rows",
                                                 source, tokenizer->vocabulary_size() - 1,
                                                 query.model_path.filename().string(), query.model_rows)};
  }
  return tokenizer;
}

Result<fs::path> import_vocabulary(const fs::path& file) {
  FULMAR_ASSIGN(const std::string text, read_vocabulary(file));
  FULMAR_ASSIGN(const Vocabulary vocabulary, parse_any_vocabulary(text, fmt::format("'{}'", file.string())));
  if (!is_world_vocabulary(vocabulary)) {
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' is not the World vocabulary: its {} tokens are not those of {}",
                             file.string(), vocabulary.entries.size(), kWorldFileName)};
  }
  const fs::path target = vocabulary_folder() / kWorldFileName;
  FULMAR_TRY(install(text, target));
  return target;
}

fs::path vocabulary_folder() {
  return user_folder("XDG_DATA_HOME", ".local/share").value_or("/.local/share/fulmar");
}

}  // namespace fulmar
