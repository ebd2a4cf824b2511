// Which adapter a request names, in any of its fields, and what a call does to have it ready. Knows no
// family.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "engine/ask.h"
#include "server/adapters/adapter_table.h"
#include "server/core/call.h"
#include "server/core/field.h"
#include "server/core/fields.h"
#include "server/models/served_model.h"

namespace fulmar {

// The fields that name an adapter, on every route that runs a model.
inline constexpr FieldTable kAdapterFields{
    "adapter",
    {{"adapter_id", Takes::text(), "adapter that the answer is made with"},
     {"adapter_version", Takes::text(), "one of its versions; absent: the one registered last"},
     {"adapter_scale", Takes::number(), "takes the place of the adapter's own scale; 0: the base model"},
     {"lora", Takes::list(R"([{"":"id scale"}])"),
      "llama.cpp's list: an adapter's number and what its own scale is multiplied by"}}};

// Reads what a request says of adapters in these fields. Faults stay in `fields`.
AdapterWish read_adapter_wish(Fields& fields);

// Returns the model with the adapter that the wish names; the model itself where it names none. Null, with
// the fault in `fields`, where it cannot be had. Nothing is loaded yet.
ServedModelPtr adapted(const Service& service, const Owner& owner, Fields& fields,
                       const ServedModelPtr& model, const AdapterWish& wish);

// Makes the model's adapter ready on its devices; returns the fault where that fails. Blocks for a copy
// between two steps of the engine: not for threads of IO or of an engine.
std::optional<ApiError> lease_adapter(const Service& service, const ServedModelPtr& model, AdapterUse& use);
// Makes it ready likewise, on a thread that may wait, and passes on what the call's rows are computed with;
// answers the call where that fails. Without an adapter passes on at once.
void with_adapter_ready(std::shared_ptr<Call> call, const ServedModelPtr& model,
                        std::function<void(AdapterUse)> then);

// Returns AdapterUse::identity of the model's adapter; empty: the base model.
const std::string& identity_of(const ServedModel& model);

}  // namespace fulmar
