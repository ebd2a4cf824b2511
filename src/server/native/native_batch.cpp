// The steps that all native batch routes share.
#include "server/native/native_batch.h"

#include <fmt/format.h>

#include <random>

#include "server/generate/chat_intake.h"

namespace fulmar {
namespace {

// Makes an id of a native request from the time and random digits that nobody can guess.
std::string new_native_id(int64_t now) {
  std::random_device device;
  return fmt::format("req-{}-{:010}{:010}{:010}", now, device(), device(), device());
}

}  // namespace

void submit_native(std::shared_ptr<Call> call, Fields& fields, const NativeRoute& route,
                   const std::vector<std::string>& prompts,
                   void (*adjust)(Fields& fields, Generation& generation)) {
  call->set_family(Family::native);
  if (!fields.failed() && prompts.empty()) fields.fail(bad_value(std::string(route.empty_text)));
  if (!fields.failed() && route.session && prompts.size() != 1) {
    fields.fail(bad_value("Request must contain exactly one prompt"));
  }
  Submission submission;
  submission.model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());

  submission.model_name = model_name(fields, "rwkv7");
  submission.generation =
      read_generation(fields, route.defaults, *submission.model, call->service().options.limits);
  submission.think = route.think;
  if (adjust) adjust(fields, submission.generation);
  const bool usage = wants_usage(fields);
  submission.prompts.reserve(prompts.size());
  for (const std::string& prompt : prompts) {
    const ServedModel& model = *submission.model;
    submission.prompts.push_back(route.rendered ? chat_tokens(model, prompt)
                                                : model.tokenizer->encode(prompt));
    if (submission.prompts.back().empty() && !submission.generation.pad_zero) {
      fields.fail(
          bad_value(fmt::format("prompt {} of {} is empty", submission.prompts.size() - 1, prompts.size())));
      break;
    }
  }
  if (fields.failed()) return call->fail(fields.fault());

  if (route.session) {
    submission.state = link_session(*route.session, prompts.front(), *submission.model);
  }
  const int64_t now = unix_seconds();
  submission.request_id = new_native_id(now);
  submission.endpoint = route.endpoint;
  submission.refuse_if_never_run = route.refuse_if_never_run;
  if (route.branch) {
    submission.held = route.branch->to;
    call->service().families.branches->name(submission.request_id, route.branch->to);
  }
  const AnswerHead head{submission.request_id, {}, now, submission.model_name};
  auto writer = route.branch ? std::make_unique<BranchWriter>(head, route.shape, usage, *route.branch)
                             : std::make_unique<NativeWriter>(head, route.shape, usage);
  submit(std::move(call), std::move(submission), std::move(writer));
}

}  // namespace fulmar
