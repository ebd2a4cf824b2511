// The plain batch routes, which differ only in their defaults.
#include "server/native/batch.h"

#include "server/native/native_batch.h"

namespace fulmar {
namespace {

GenerationDefaults with_padding(GenerationDefaults defaults) {
  defaults.pad_zero = true;
  return defaults;
}

GenerationDefaults with_chunks_of(GenerationDefaults defaults, int64_t tokens) {
  defaults.chunk_size = tokens;
  return defaults;
}

void submit_contents(std::shared_ptr<Call> call, const NativeRoute& route) {
  Fields fields(call->body());
  const auto contents = fields.texts(kContentsFields["contents"]);
  submit_native(std::move(call), fields, route, contents);
}

}  // namespace

void contents_on_chat_path(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const auto contents = fields.texts(kContentsFields["contents"]);
  const NativeRoute route{.defaults = kNativeDefaults, .session = read_session(*call, fields)};
  submit_native(std::move(call), fields, route, contents);
}

void v2_chat(std::shared_ptr<Call> call) {
  submit_contents(std::move(call), {.defaults = with_padding(kNativeDefaults)});
}

void batch_completions(std::shared_ptr<Call> call) {
  submit_contents(std::move(call), {.defaults = with_chunks_of(kNativeDefaults, 8),
                                    .shape = {"rwkv7-fast-batch", "chat.completion"},
                                    .refuse_if_never_run = true});
}

}  // namespace fulmar
