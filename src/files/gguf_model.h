// RWKV-7 and RWKV-6 as GGUF files name and orient them, turned into official names. Knows llama.cpp's
// conventions; the container is gguf.h's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "files/checkpoint.h"
#include "files/gguf.h"

namespace fulmar {

// Tensors as views of the file wherever official names, shapes and orientation can be had so; what cannot
// (stacked, transposed or one-dimensional tensors in block formats, RWKV-6 matrices that were stored divided
// by powers of two) is copied. The copies of a0, a1, a2 that stand as v0, v1, v2 in block 0 are left out.
// `metadata` gets general.name, general.architecture and tokenizer.chat_template, `vocabulary` the tokens.
// Refused by name ("unsupported"): other architectures, other vocabulary kinds, other epsilons than 1e-5.
Result<CheckpointParts> gguf_model(const GgufFile& file);

// The bytes of a token's text, in which \t \n \r \xhh stand for bytes and a backslash in front of anything
// else is dropped.
std::string unescape_token(std::string_view text);
std::string escape_token(std::string_view bytes);

// How many parts a file says it has; 1 where it says nothing.
Result<int64_t> split_count(const GgufFile& file);
// The files of a model whose first part is `first`, in order: NAME-00001-of-00003.gguf. Refuses a name that
// is no first part of `count`.
Result<std::vector<std::filesystem::path>> split_paths(const std::filesystem::path& first, int64_t count);
// Takes the tensors of part `index` (from 0) into the whole; refuses one of another model or place.
Status join_split(GgufFile& whole, const GgufFile& part, int64_t index);
// Refuses where tensors are missing in the end.
Status check_split_total(const GgufFile& whole);

}  // namespace fulmar
