// Feeds arbitrary bytes to the reader of forms, the first line as Content-Type: what it gives lies in the
// body.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "net/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  if (line == std::string_view::npos) return 0;
  const std::string_view body = input.substr(line + 1);
  const auto parts = fulmar::parse_form(input.substr(0, line), body);
  if (!parts.ok()) {
    if (parts.error().text.empty()) std::abort();
    return 0;
  }
  if (parts->size() > fulmar::kMostFormParts) std::abort();
  for (const fulmar::FormPart& part : *parts) {
    if (part.name.empty()) std::abort();
    const char* begin = part.content.data();
    if (begin < body.data() || begin + part.content.size() > body.data() + body.size()) std::abort();
  }
  return 0;
}
