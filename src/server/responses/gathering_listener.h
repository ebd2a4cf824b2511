// Gathers the engine's events of a background response into its answer.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "server/responses/background_responses.h"
#include "server/responses/responses_writer.h"
#include "text/reasoning_split.h"

namespace fulmar {

// Called once, on the engine's thread, with the answer or the error in its place; with nothing where neither
// could be written. `cut`: the row was cancelled, or is to be because its key was removed. Must not throw.
using Gathered = std::function<void(std::optional<StoredResponse> answer, bool cut)>;

// Gathers the only row of a request.
std::shared_ptr<Listener> gathering_listener(std::unique_ptr<ResponsesWriter> writer,
                                             std::optional<ReasoningMode> split, KeyShare share,
                                             Gathered done);

}  // namespace fulmar
