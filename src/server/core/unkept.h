// What a request holds that its route does not use: refused by name, or told of in the answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/core/errors.h"

namespace fulmar {

struct UnkeptFields {
  std::optional<ApiError> fault;
  bool at_once =
      false;  // the fault ends the request before its handler; else the handler refuses it (Call::unkept)
  std::vector<std::string> warnings;  // texts for the header Fulmar-Warning and the member `warnings`
};

}  // namespace fulmar
