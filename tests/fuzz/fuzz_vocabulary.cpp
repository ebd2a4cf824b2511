// Feeds arbitrary bytes to the vocabulary reader. A vocabulary that is accepted must encode as a naive
// longest match does, here its own file, and every token must stand for itself.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "text/vocabulary.h"
#include "text/world_tokenizer.h"

namespace {

using TokenMap = std::map<std::string_view, int32_t>;

std::vector<int32_t> naive_encode(const TokenMap& tokens, size_t longest, std::string_view text) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    size_t length = std::min(longest, text.size());
    while (length > 0 && !tokens.contains(text.substr(0, length))) --length;
    if (length > 0) ids.push_back(tokens.at(text.substr(0, length)));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return ids;
}

void expect(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto vocabulary = fulmar::parse_any_vocabulary(text, "fuzz");
  if (!vocabulary.ok()) {
    expect(vocabulary.error().text.find("fuzz") != std::string::npos);
    expect(vocabulary.error().text.find('\n') == std::string::npos);
    return 0;
  }
  const fulmar::WorldTokenizer tokenizer(*vocabulary, false);
  TokenMap tokens;
  size_t longest = 0;
  for (const auto& entry : vocabulary->entries) {
    tokens.emplace(entry.bytes, entry.id);
    longest = std::max(longest, entry.bytes.size());
    expect(tokenizer.bytes(entry.id) == entry.bytes);
    expect(tokenizer.token_of(entry.bytes) == entry.id);
  }
  const std::string_view sample = text.substr(0, 2000);
  const std::vector<int32_t> ids = tokenizer.encode(sample);
  expect(ids == naive_encode(tokens, longest, sample));
  if (!tokenizer.first_unknown(sample)) expect(tokenizer.decode(ids) == sample);
  return 0;
}
