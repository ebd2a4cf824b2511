// Every element of `contents` is what a user says; else `messages` make one prompt.
#include "server/native/v3.h"

#include "server/generate/chat_intake.h"
#include "server/native/native_batch.h"

namespace fulmar {
namespace {

std::vector<std::string> read_prompts(Fields& fields, const ServedModel& model, ThinkMode& think) {
  std::vector<std::string> prompts;
  if (fields.present(kContentsFields["contents"]) && fields.present(kMessageFields["messages"])) {
    fields.fail(bad_value("'messages' and 'contents' cannot be combined; send one of them", "contents",
                          "ambiguous_input"));
  } else if (fields.present(kContentsFields["contents"])) {
    think = read_think_mode(fields, model, kV3Chat.think_off);
    for (const std::string& said : fields.texts(kContentsFields["contents"])) {
      prompts.push_back(render_utterance(said, think, *model.prompt_template));
    }
  } else if (fields.present(kMessageFields["messages"])) {
    if (const auto chat = read_chat(fields, model, kV3Chat)) {
      prompts.push_back(chat->text);
      think = chat->think;
    }
  }
  return prompts;
}

}  // namespace

void v3_chat(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());
  ThinkMode think = ThinkMode::none;
  const std::vector<std::string> prompts = read_prompts(fields, *model, think);
  submit_native(std::move(call), fields,
                {.defaults = kNativeDefaults,
                 .shape = {"rwkv7-batch-v3", "chat.completion"},
                 .endpoint = "v3.chat.completions",
                 .rendered = true,
                 .think = think},
                prompts);
}

}  // namespace fulmar
