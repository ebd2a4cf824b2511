// Chooses the vocabulary of a model, and keeps the World vocabulary on this machine. The choice is a pure
// function of the facts about files; the code around it looks for files and reads them.
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

// Rows (vocabulary size) of the models that use the World vocabulary, and its file's usual name.
inline constexpr int64_t kWorldRows = 65536;
inline constexpr const char* kWorldFileName = "rwkv_vocab_v20230424.txt";

struct VocabularyQuery {
  std::filesystem::path model_path;           // a file or a folder; empty: only explicit_vocabulary counts
  std::filesystem::path explicit_vocabulary;  // --vocab; empty: choose from the model
  std::string named_in_model;                 // the checkpoint's metadata "tokenizer"; empty: none
  int64_t model_rows = 0;                     // size of the model's vocabulary; 0: unknown
  Vocabulary in_model;                        // from inside the model file; empty: none
};

// What was found on disk: paths of files that exist; empty where there is none.
struct VocabularyFacts {
  std::filesystem::path told;            // --vocab, whether it exists or not
  std::string named;                     // as in the query
  std::filesystem::path named_file;      // that name in the model's folder
  std::filesystem::path model_own;       // <model without extension>.vocab.txt
  std::filesystem::path in_folder;       // the vocabulary of a model that is a folder
  std::filesystem::path world_beside;    // kWorldFileName in the model's folder
  std::filesystem::path world_imported;  // kWorldFileName in the data folder
  std::string model;                     // the model's file name, for errors
  int64_t model_rows = 0;
};

// A file to read; nothing: the vocabulary of bytes.
using VocabularyChoice = std::optional<std::filesystem::path>;

// Returns the first that applies: told, named in the model, the model's own file, its folder's, bytes for 256
// rows, the World file beside a model of kWorldRows, the imported one. The error (not_found) says what to do.
Result<VocabularyChoice> choose_vocabulary(const VocabularyFacts& facts);

// Finds the vocabulary among a folder's files ("*vocab*.txt", "*vocab*.json", "tokenizer.json"), in any
// format; empty: none can be read. For a model of kWorldRows only the World vocabulary counts. Errors: two
// files with different vocabularies; a model of kWorldRows with another vocabulary.
Result<std::filesystem::path> find_folder_vocabulary(const std::filesystem::path& folder, int64_t model_rows);

// Finds, reads and builds the tokenizer. A vocabulary inside the model file is used unless --vocab is given.
// Error: the vocabulary has ids at or above model_rows.
Result<std::unique_ptr<Tokenizer>> choose_tokenizer(const VocabularyQuery& query);
Result<std::unique_ptr<Tokenizer>> open_vocabulary_file(const std::filesystem::path& path);

// Checks that `file` is the World vocabulary and installs it in the data folder, whole or not at all. Returns
// the installed path.
Result<std::filesystem::path> import_vocabulary(const std::filesystem::path& file);

// Returns $XDG_DATA_HOME/fulmar, or ~/.local/share/fulmar.
std::filesystem::path vocabulary_folder();

}  // namespace fulmar
