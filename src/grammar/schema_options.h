// Options of compiling a schema.
#pragma once

#include <cstdint>

#include "grammar/loosened.h"

namespace fulmar {

enum class MemberOrder : uint8_t {
  schema,  // as the schema lists them, others after them
  any,
};

struct SchemaOptions {
  Loosened* loosened = nullptr;  // gets what cannot be kept, which then asks for nothing; null: it is refused
  bool unlisted = false;         // members and elements beyond the listed ones, where the schema lets them be
  MemberOrder order = MemberOrder::schema;
};

}  // namespace fulmar
