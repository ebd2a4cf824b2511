// Which vocabulary belongs to a model, and keeping the World vocabulary on this machine. The choice is a pure
// function over what lies where; looking and reading are done around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace fulmar {

// Rows of the models that the World vocabulary belongs to, and its file's usual name.
inline constexpr int64_t kWorldRows = 65536;
inline constexpr const char* kWorldFileName = "rwkv_vocab_v20230424.txt";

struct VocabularyQuery {
  std::filesystem::path model_path;           // empty: there is no model, only explicit_vocabulary counts
  std::filesystem::path explicit_vocabulary;  // --vocab; empty: choose from the model
  std::string named_in_model;                 // the checkpoint's metadata "tokenizer"; empty: none
  int64_t model_rows = 0;                     // size of the model's vocabulary; 0: unknown
  Vocabulary in_model;                        // that the model file brings; empty: none
};

// What was found on disk; paths of files that exist, empty ones for those that do not.
struct VocabularyFacts {
  std::filesystem::path told;            // --vocab, whether it exists or not
  std::string named;                     // as in the query
  std::filesystem::path named_file;      // that name in the model's folder
  std::filesystem::path model_own;       // <model without extension>.vocab.txt
  std::filesystem::path world_beside;    // kWorldFileName in the model's folder
  std::filesystem::path world_imported;  // kWorldFileName in the data folder
  std::string model;                     // the model's file name, for errors
  int64_t model_rows = 0;
};

// A file to read; nothing: bytes.
using VocabularyChoice = std::optional<std::filesystem::path>;

// The first that applies: told, named in the model, the model's own file, bytes for 256 rows, the World file
// beside a model of kWorldRows, the imported one. The error (not_found) says what to do.
Result<VocabularyChoice> choose_vocabulary(const VocabularyFacts& facts);

// Looks, chooses, reads and builds; what the model file brings is used unless --vocab is given. A vocabulary
// with ids at or above model_rows is refused.
Result<std::unique_ptr<Tokenizer>> choose_tokenizer(const VocabularyQuery& query);
Result<std::unique_ptr<Tokenizer>> open_vocabulary_file(const std::filesystem::path& path);

// Checks that `file` is the World vocabulary and installs it in the data folder, whole or not at all. Returns
// where.
Result<std::filesystem::path> import_vocabulary(const std::filesystem::path& file);

// $XDG_DATA_HOME/fulmar, or ~/.local/share/fulmar.
std::filesystem::path vocabulary_folder();

}  // namespace fulmar
