// The order of places to look at, and the effects around it.
#include "text/locate_vocabulary.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "text/byte_tokenizer.h"
#include "text/sha256.h"
#include "text/vocabulary.h"
#include "text/world_tokenizer.h"

namespace fulmar {
namespace {

namespace fs = std::filesystem;

fs::path if_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path : fs::path();
}

// A model file may name a neighbour, nothing elsewhere on this machine.
bool is_plain_name(const std::string& name) {
  return name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

VocabularyFacts look(const VocabularyQuery& query) {
  VocabularyFacts facts;
  facts.told = query.explicit_vocabulary;
  facts.model_rows = query.model_rows;
  facts.world_imported = if_file(vocabulary_folder() / kWorldFileName);
  if (query.model_path.empty()) return facts;
  const fs::path folder = query.model_path.parent_path();
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

// At most `most` bytes and one more, so that a larger file shows.
Result<std::string> read_file(const fs::path& path, size_t most) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return Error{ErrorKind::not_found,
                 fmt::format("vocabulary '{}' is no file that can be read", path.string())};
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(most + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (file.fail() && !file.eof())) {
    return Error{ErrorKind::io, fmt::format("vocabulary '{}' cannot be read", path.string())};
  }
  return text;
}

Result<std::string> read_vocabulary(const fs::path& path) { return read_file(path, kMaxVocabularyFileBytes); }

// Written beside the target first: readers see the old file, none, or the whole new one.
Status install(const std::string& text, const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  fs::path beside = target;
  beside += fmt::format(".{}.part", getpid());
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(beside, target, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(beside, ignored);
  return Error{ErrorKind::io, fmt::format("'{}' cannot be written: {}", target.string(), error.message())};
}

}  // namespace

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
  if (facts.model_rows == ByteTokenizer::kVocabularySize) return VocabularyChoice();
  if (facts.model_rows == kWorldRows && !facts.world_beside.empty())
    return VocabularyChoice(facts.world_beside);
  if (facts.model_rows == kWorldRows && !facts.world_imported.empty()) {
    return VocabularyChoice(facts.world_imported);
  }
  return nothing_found(facts);
}

Result<std::unique_ptr<Tokenizer>> open_vocabulary_file(const fs::path& path) {
  FULMAR_ASSIGN(const std::string text, read_vocabulary(path));
  FULMAR_ASSIGN(const Vocabulary vocabulary, parse_vocabulary(text, fmt::format("'{}'", path.string())));
  return std::unique_ptr<Tokenizer>(std::make_unique<WorldTokenizer>(vocabulary, is_world_vocabulary(text)));
}

Result<std::unique_ptr<Tokenizer>> choose_tokenizer(const VocabularyQuery& query) {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string source;
  if (query.explicit_vocabulary.empty() && !query.in_model.entries.empty()) {
    tokenizer = std::make_unique<WorldTokenizer>(query.in_model, false);
    source = "of the model file";
  } else {
    FULMAR_ASSIGN(const VocabularyChoice choice, choose_vocabulary(look(query)));
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
  if (!is_world_vocabulary(text)) {
    return Error{ErrorKind::corrupt,
                 fmt::format("'{}' is not the World vocabulary: found {} bytes with SHA-256 {}, wanted {} as "
                             "published (with LF or CRLF, with or without the last LF)",
                             file.string(), text.size(), sha256_hex(text), kWorldFileName)};
  }
  const fs::path target = vocabulary_folder() / kWorldFileName;
  FULMAR_TRY(install(text, target));
  return target;
}

fs::path vocabulary_folder() {
  // The base directory specification ignores relative paths here.
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && *data == '/') {
    return fs::path(data) / "fulmar";
  }
  const char* home = std::getenv("HOME");
  return fs::path(home != nullptr ? home : "/") / ".local/share/fulmar";
}

}  // namespace fulmar
