// Expected failures as values. Only the edge (HTTP status, exit line) turns an Error into words for a person.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace fulmar {

// What went wrong, coarse enough to choose an HTTP status or an exit code from.
enum class ErrorKind {
  invalid,      // the caller asked for something that can never work (HTTP 400, exit 2)
  not_found,    // a named thing does not exist (404, exit 3)
  unsupported,  // understood, but this build or device cannot do it (400, exit 3)
  corrupt,      // a file or stream breaks its own format (400/500, exit 3)
  io,           // the operating system refused (500, exit 3)
  resource,     // memory, slots or disk space do not suffice (503, exit 4)
  conflict,     // clashes with the present state of things (409)
  unavailable,  // not now; try again later (503)
  internal,     // our own fault, caught in time (500, exit 1)
};

// The text names the thing concerned and, where there are two values, both: found and wanted.
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string text;
};

// Either a value or an Error. Reading the wrong side is a bug and aborts (std::get throws, nobody catches).
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(content_); }
  const T& value() const& { return std::get<0>(content_); }
  T&& value() && { return std::get<0>(std::move(content_)); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, Error> content_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace fulmar

#define FULMAR_CONCAT_(a, b) a##b
#define FULMAR_CONCAT(a, b) FULMAR_CONCAT_(a, b)

// Evaluates a Status or Result expression and returns its Error from the enclosing function on failure.
#define FULMAR_TRY(expression)                                                                \
  do {                                                                                        \
    if (auto fulmar_status = (expression); !fulmar_status.ok()) return fulmar_status.error(); \
  } while (0)

// FULMAR_ASSIGN(auto x, f()): unwraps a Result into a declaration or lvalue, or returns its Error.
#define FULMAR_ASSIGN(lhs, expression) \
  FULMAR_ASSIGN_(FULMAR_CONCAT(fulmar_result_, __LINE__), lhs, expression)
#define FULMAR_ASSIGN_(temporary, lhs, expression) \
  auto temporary = (expression);                   \
  if (!temporary.ok()) return temporary.error();   \
  lhs = std::move(temporary).value()
