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

#include "support/folders.h"
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

// A token in the byte-level alphabet of JSON vocabularies.
inline std::string byte_level(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto plain = [](int byte) {
      return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    };
    const int byte = static_cast<unsigned char>(c);
    int character = byte;
    if (!plain(byte)) {
      character = 256;
      for (int before = 0; before < byte; ++before) character += plain(before) ? 0 : 1;
    }
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return text;
}

inline std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// {token: id}, with the end of text as id 0.
inline std::string token_map_json(const Vocabulary& vocabulary) {
  std::string text = "{\"<|endoftext|>\":0";
  for (const VocabularyEntry& entry : vocabulary.entries) {
    text += fmt::format(",{}:{}", json_quoted(byte_level(entry.bytes)), entry.id);
  }
  return text + "}";
}

// A tokenizer.json.
inline std::string tokenizer_json(const Vocabulary& vocabulary) {
  return R"({"version":"1.0","added_tokens":[{"id":0,"content":"<|endoftext|>","special":true}],)"
         R"("model":{"type":"RwkvTrie","vocab":)" +
         token_map_json(vocabulary) + "}}";
}

// {id: bytes}.
inline std::string id_map_json(const Vocabulary& vocabulary) {
  std::string text = "{";
  for (const VocabularyEntry& entry : vocabulary.entries) {
    text += fmt::format("{}\"{}\":[", text.size() > 1 ? "," : "", entry.id);
    for (size_t i = 0; i < entry.bytes.size(); ++i) {
      text += fmt::format("{}{}", i > 0 ? "," : "", static_cast<unsigned char>(entry.bytes[i]));
    }
    text += "]";
  }
  return text + "}";
}

inline std::optional<std::string> read_whole_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline std::filesystem::path shared_world_file() {
  return support::source_folder() / "../shared/vocab/rwkv_vocab_v20230424.txt";
}

}  // namespace fulmar
