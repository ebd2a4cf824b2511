// An HTTP request and its response as plain data. Knows no socket, no JSON and no route.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fulmar {

// Header fields in the order in which they came. Names are compared without regard to case.
class Headers {
 public:
  // Returns the first value of `name`, or null.
  const std::string* find(std::string_view name) const;
  // Returns the first value of `name`, or an empty view.
  std::string_view get(std::string_view name) const;
  // Returns whether a comma-separated field `name` lists `token`, both without regard to case.
  bool lists(std::string_view name, std::string_view token) const;

  void add(std::string name, std::string value);
  // Replaces every field of that name by one.
  void set(std::string name, std::string value);
  void remove(std::string_view name);

  bool empty() const { return fields_.empty(); }
  size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

// Decoded `name=value` pairs of a query string, in order.
class Query {
 public:
  // Returns the last value of `name`, or null.
  const std::string* find(std::string_view name) const;
  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }

  bool empty() const { return fields_.empty(); }
  size_t size() const { return fields_.size(); }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct HttpRequest {
  std::string method;  // upper case as sent: "GET", "POST", ...
  std::string target;  // as sent, with query and escapes
  std::string path;    // decoded, starts with '/', without trailing slashes but escaped ones
  Query query;         // decoded
  Headers headers;
  std::string body;            // whole, chunked encoding removed
  std::string remote_address;  // "127.0.0.1:51234", "[::1]:51234"
  std::string client;          // whom work and bytes count for, see net/client_address.h; empty in tests
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";  // empty: none, or the one in `headers`
  Headers headers;  // extra ones; Content-Length, Transfer-Encoding, Connection and Date belong to the server
  std::string body;
};

// Returns the usual reason phrase ("Not Found"); "Unknown" for a status without one.
std::string_view reason_phrase(int status);

// Returns whether the two differ at most in the case of ASCII letters.
bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace fulmar
