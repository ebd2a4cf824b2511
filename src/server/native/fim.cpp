// Joins pairs of prefix and suffix to raw prompts.
#include "server/native/fim.h"

#include <algorithm>

#include "server/native/native_batch.h"
#include "text/chat_template.h"

namespace fulmar {
namespace {

GenerationDefaults infill_defaults() {
  GenerationDefaults defaults = kNativeDefaults;
  defaults.stops = DefaultStops::infill;
  return defaults;
}

}  // namespace

void fill_in_the_middle(std::shared_ptr<Call> call) {
  call->set_family(Family::native);
  Fields fields(call->body());
  const auto prefixes = fields.texts(kHoleFields["prefix"]);
  const auto suffixes = fields.texts(kHoleFields["suffix"]);
  if (prefixes.size() != suffixes.size()) {
    fields.fail(bad_value("prefix and suffix must have the same length"));
  }
  std::vector<std::string> prompts;
  for (size_t i = 0; i < std::min(prefixes.size(), suffixes.size()); ++i) {
    prompts.push_back(render_infill(prefixes[i], suffixes[i]));
  }
  submit_native(std::move(call), fields,
                {.defaults = infill_defaults(),
                 .shape = {"rwkv7-batch", "FIM.completion"},
                 .endpoint = "fim.completions"},
                prompts);
}

}  // namespace fulmar
