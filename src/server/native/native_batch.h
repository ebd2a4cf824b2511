// Shared by all native batch routes: raw prompts in, one row each, native answers out. A route adds its
// defaults and its list of prompts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/generate/intake.h"
#include "server/native/branch_writer.h"

namespace fulmar {

inline constexpr FieldTable kContentsFields{"contents",
                                            {{"contents", Takes::texts(), "raw prompts, an answer each"}}};

struct NativeRoute {
  GenerationDefaults defaults;
  NativeShape shape = kBatchShape;
  std::string_view endpoint = "batch.completions";
  std::string_view empty_text = "Empty prompts list";  // the error for a list without prompts
  bool refuse_if_never_run = false;
  bool rendered = false;                   // the prompts are chats in the model's template
  ThinkMode think = ThinkMode::none;       // with which they end
  std::optional<SessionUse> session = {};  // continued by the only prompt
  std::optional<BranchTurn> branch = {};   // of a session tree, beside `session`
};

// Encodes the prompts exactly as given and submits them. `adjust` may be null; it changes what was read of
// the request's parameters. Faults already in `fields` are answered.
void submit_native(std::shared_ptr<Call> call, Fields& fields, const NativeRoute& route,
                   const std::vector<std::string>& prompts,
                   void (*adjust)(Fields& fields, Generation& generation) = nullptr);

}  // namespace fulmar
