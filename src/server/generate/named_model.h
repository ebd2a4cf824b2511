// Models by the names that clients say. One that lies in the folder of models is loaded where it is named, as
// clients of Ollama expect.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/core/owner.h"
#include "server/core/route.h"
#include "server/core/service.h"
#include "server/models/served_model.h"

namespace fulmar {

// Finds a model by its own name or that of an adapter, which `adapter` then is; an unknown name means the
// default model unless `strict`. Null where there is none.
ServedModelPtr named_model(const Service& service, const Owner& owner, std::string_view name, bool strict,
                           std::string* adapter = nullptr);

// Runs `handle` on the call: at once, or once the model of the fields `model` or `name` is loaded where it is
// installed, not loaded yet, and the caller may load models. Who may not gets the model at hand.
void with_named_model(std::shared_ptr<Call> call, RouteHandler handle);

}  // namespace fulmar
