// Exceptions as errors, for whoever owes somebody an answer whatever happens.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "base/result.h"

namespace fulmar {

// What `work` returns, a Result or a Status; what it throws as an internal Error that begins with `what`.
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
