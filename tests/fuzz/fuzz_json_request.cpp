// Feeds arbitrary bytes to the JSON reader as a request body and reads fields from what comes out, strictly
// and leniently; what the writer makes of the tree must parse again to the same text.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "net/json.h"
#include "net/json_writer.h"

namespace {

void read_fields(const fulmar::JsonValue& body) {
  for (const char* field : {"a", "max_tokens", "temperature", "stream", "stop", "messages", "logit_bias"}) {
    (void)fulmar::get_bool(body, field);
    (void)fulmar::get_int(body, field, 0, 100);
    (void)fulmar::get_number(body, field, 0, 2);
    (void)fulmar::get_string(body, field);
    (void)fulmar::get_array(body, field);
    (void)fulmar::get_object(body, field);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fulmar::JsonLimits limits;
  limits.max_depth = 32;
  limits.max_values = 10'000;
  const auto body = fulmar::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), limits);
  if (!body.ok()) {
    if (!body.error().text.starts_with("Invalid JSON")) std::abort();
    return 0;
  }
  read_fields(*body);
  (void)describe(*body);
  const std::string written = fulmar::JsonWriter().value(*body).take();
  const auto again = fulmar::parse_json(written, limits);
  if (!again.ok() || fulmar::JsonWriter().value(*again).take() != written) std::abort();
  return 0;
}
