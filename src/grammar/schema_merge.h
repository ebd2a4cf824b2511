// One schema in place of several that all have to hold.
#pragma once

#include "base/result.h"
#include "grammar/budget.h"
#include "net/json_value.h"

namespace fulmar {

// What `schema`, which has an `allOf`, asks for without it: its members and references are followed. Several
// patterns stand in an array under `pattern`. Errors: unsupported, naming two keywords that are not joined;
// those of the budget.
Result<JsonValue> merged_schema(const JsonValue& document, const JsonValue& schema, Budget& budget);

}  // namespace fulmar
