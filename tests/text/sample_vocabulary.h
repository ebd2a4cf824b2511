// Vocabularies for tests: made on the spot, so that no file is needed.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"

namespace fulmar {

// A bytes literal with every byte escaped.
inline std::string bytes_literal(std::string_view bytes) {
  std::string literal = "b'";
  for (const char c : bytes) literal += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return literal + "'";
}

inline std::string vocabulary_line(int id, std::string_view bytes) {
  return fmt::format("{} {} {}\n", id, bytes_literal(bytes), bytes.size());
}

// A file with the 256 bytes as ids 1..256 and `tokens` from 257 on.
inline std::string vocabulary_file(const std::vector<std::string>& tokens) {
  std::string text;
  for (int byte = 0; byte < 256; ++byte)
    text += vocabulary_line(byte + 1, std::string(1, static_cast<char>(byte)));
  int id = 257;
  for (const std::string& token : tokens) text += vocabulary_line(id++, token);
  return text;
}

inline std::optional<std::string> read_whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::filesystem::path shared_world_file() {
  return std::filesystem::path(FULMAR_SOURCE_DIR) / "../shared/vocab/rwkv_vocab_v20230424.txt";
}

}  // namespace fulmar
