// Gathers what the engine says of a response that is made while nobody waits.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "server/responses/background_responses.h"
#include "server/responses/responses_writer.h"
#include "text/reasoning_split.h"

namespace fulmar {

// Told once, on the engine's thread: the answer, or what says how it failed; nothing where neither could be
// written. `cut`: the row has ended as cancelled, or is to, since its key was removed. Must not throw.
using Gathered = std::function<void(std::optional<StoredResponse> answer, bool cut)>;

// Gathers the only row of a request.
std::shared_ptr<Listener> gathering_listener(std::unique_ptr<ResponsesWriter> writer,
                                             std::optional<ReasoningMode> split, KeyShare share,
                                             Gathered done);

}  // namespace fulmar
