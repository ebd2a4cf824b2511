// Loads models on request: a model that a client names and that lies in the folder of models is loaded, as
// clients of Ollama expect.
#pragma once

#include <memory>

#include "server/core/route.h"

namespace fulmar {

// Runs `handle` on the call: at once, or once the model of the fields `model` or `name` is loaded where it is
// installed, not loaded yet, and the caller may load models. Who may not gets the model at hand.
void with_named_model(std::shared_ptr<Call> call, RouteHandler handle);

}  // namespace fulmar
