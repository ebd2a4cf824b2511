#include "app/core/draft_source.h"

#include <fmt/core.h>

namespace fulmar {

namespace {

Status check_same_vocabulary(const LoadedModel& model, const LoadedModel& draft) {
  const int64_t tokens = model.model->config().vocab, found = draft.model->config().vocab;
  if (found != tokens) {
    return Error{ErrorKind::invalid,
                 fmt::format("--draft-model has {} tokens; wanted {}, as the model has", found, tokens)};
  }
  for (int32_t id = 0; id < tokens; id++) {
    if (model.tokenizer->bytes(id) == draft.tokenizer->bytes(id)) continue;
    return Error{ErrorKind::invalid,
                 fmt::format("token {} of --draft-model is another text than the model's; "
                             "wanted one vocabulary",
                             id)};
  }
  return {};
}

}  // namespace

Result<LoadedModel> load_draft_model(const ModelFlags& target, const std::string& path,
                                     const LoadedModel& drafted_for) {
  ModelFlags flags;
  flags.model = path;
  flags.vocab = target.vocab;
  if (!spreads(target.devices)) flags.devices.devices = target.devices.devices;
  flags.devices.threads = target.devices.threads;
  flags.quiet = true;
  FULMAR_ASSIGN(LoadedModel draft, load_model(flags));
  FULMAR_TRY(check_same_vocabulary(drafted_for, draft));
  return draft;
}

}  // namespace fulmar
