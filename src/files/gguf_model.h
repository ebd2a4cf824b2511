// Converts RWKV-7 and RWKV-6 from the names and orientation of GGUF files to official ones. Knows llama.cpp's
// conventions; the container is in gguf.h.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/gguf.h"

namespace fulmar {

// Converts a model. Tensors are views of the file wherever official names, shapes and orientation allow it;
// the others (stacked, transposed or one-dimensional tensors in block formats, RWKV-6 matrices stored divided
// by powers of two) are copied. The copies of a0, a1, a2 that stand as v0, v1, v2 in block 0 are left out.
// `metadata` gets general.name, general.architecture and tokenizer.chat_template, `vocabulary` the tokens.
// Error unsupported: other architectures, vocabulary kinds, or epsilons than 1e-5.
Result<CheckpointParts> gguf_model(const GgufFile& file);

// Returns the bytes of a token's text, in which \t \n \r \xhh stand for bytes; drops a backslash before
// anything else.
std::string unescape_token(std::string_view text);
std::string escape_token(std::string_view bytes);

// Returns how many parts the model has according to the file; 1 where it says nothing.
Result<int64_t> split_count(const GgufFile& file);
// Returns the files of a model whose first part is `first`, in order: NAME-00001-of-00003.gguf. Error: the
// name is not that of the first of `count` parts.
Result<std::vector<std::filesystem::path>> split_paths(const std::filesystem::path& first, int64_t count);
// Adds the tensors of part `index` (from 0). Error: the part has another number or another model.
Status join_split(GgufFile& whole, const GgufFile& part, int64_t index);
// Checks that no tensors are missing in the end.
Status check_split_total(const GgufFile& whole);

}  // namespace fulmar
