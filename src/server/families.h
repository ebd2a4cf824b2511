// Makes the state of all families of routes: the only place that knows all of them.
#pragma once

#include <memory>

#include "cache/document_store.h"
#include "server/adapters/adapter_registry.h"
#include "server/core/service.h"
#include "server/responses/family.h"

namespace fulmar {

// Returns the families of a server with these models, whose stored responses lie in `responses`.
Families make_families(ModelRegistry& models, const AdapterLimits& adapters = {},
                       std::shared_ptr<ResponseFamily> responses = std::make_shared<ResponseFamily>());

}  // namespace fulmar
