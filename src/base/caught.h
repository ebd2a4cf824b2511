// Turns exceptions into errors, for callers that must answer whatever happens.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/result.h"

namespace fulmar {

// Returns what `work` returns, a Result or Status; turns an exception into an Error beginning with `what`.
template <class Work>
auto caught(const std::string& what, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::exception& failure) {
    return Error{ErrorKind::internal, what + ": " + failure.what()};
  } catch (...) {
    return Error{ErrorKind::internal, what + ": unknown"};
  }
}

}  // namespace fulmar
