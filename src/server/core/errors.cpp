// Writes the error bodies of each family. Knows no route.
#include "server/core/errors.h"

#include <fmt/format.h>

#include "net/json_writer.h"

namespace fulmar {
namespace {

std::string_view type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

std::string_view anthropic_type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

void write_text_or_null(JsonWriter& json, std::string_view name, const std::string& text) {
  json.key(name);
  if (text.empty()) {
    json.null();
  } else {
    json.value(text);
  }
}

void write_openai_error(JsonWriter& json, const ApiError& error) {
  json.begin_object().member("message", error.text).member("type", type_of(error.status));
  write_text_or_null(json, "param", error.param);
  write_text_or_null(json, "code", error.code);
  json.end_object();
}

constexpr JsonShape kOpenaiError{
    "error.openai",
    R"({"error":{"message":"string","type":"string","param":"string|null","code":"string|null"},)"
    R"("request_bsz?":"integer","max_bsz?":"integer"})"};
constexpr JsonShape kNativeError{"error.native",
                                 R"({"error":"string","request_bsz?":"integer","max_bsz?":"integer"})"};
constexpr JsonShape kAdminError{"error.admin", R"({"detail":"string"})"};
constexpr JsonShape kAnthropicError{"error.anthropic",
                                    R"({"type":"=error","error":{"type":"string","message":"string"},)"
                                    R"("request_bsz?":"integer","max_bsz?":"integer"})"};

}  // namespace

const JsonShape& error_shape(Family family) {
  switch (family) {
    case Family::openai:
      return kOpenaiError;
    case Family::native:
      return kNativeError;
    case Family::anthropic:
      return kAnthropicError;
    case Family::admin:
      break;
  }
  return kAdminError;
}

ApiError bad_value(std::string text, std::string param, std::string code) {
  return ApiError{400, std::move(text), std::move(param), std::move(code), {}};
}

ApiError api_error(const Error& error) {
  switch (error.kind) {
    case ErrorKind::invalid:
      return {400, error.text, {}, "invalid_value", {}};
    case ErrorKind::unsupported:
      return {400, error.text, {}, "unsupported_parameter", {}};
    case ErrorKind::corrupt:
      return {400, error.text, {}, "invalid_value", {}};
    case ErrorKind::not_found:
      return {404, error.text, {}, "not_found", {}};
    case ErrorKind::conflict:
      return {409, error.text, {}, "conflict", {}};
    case ErrorKind::resource:
    case ErrorKind::unavailable:
      return {503, error.text, {}, "unavailable", {}};
    case ErrorKind::io:
    case ErrorKind::internal:
      break;
  }
  return {500, error.text, {}, "internal_error", {}};
}

ApiError store_failed(std::string_view store) {
  return {503,
          fmt::format("The store of {} fails; try again later (the server's log says why)", store),
          {},
          "store_failed",
          {}};
}

std::string error_json(Family family, const ApiError& error) {
  JsonWriter json;
  json.begin_object();
  switch (family) {
    case Family::openai:
      json.key("error");
      write_openai_error(json, error);
      break;
    case Family::native:
      json.member("error", error.text);
      break;
    case Family::admin:
      json.member("detail", error.text);
      break;
    case Family::anthropic:
      json.member("type", "error").key("error").begin_object();
      json.member("type", anthropic_type_of(error.status)).member("message", error.text).end_object();
      break;
  }
  for (const auto& [name, number] : error.facts) json.member(name, number);
  return json.end_object().take();
}

HttpResponse error_response(Family family, const ApiError& error) {
  HttpResponse response;
  response.status = error.status;
  response.body = error_json(family, error);
  if (error.status == 503) response.headers.set("Retry-After", "1");
  if (error.status == 429) response.headers.set("Retry-After", std::to_string(error.retry_after));
  return response;
}

HttpResponse unrouted_response(const std::string& methods) {
  HttpResponse response;
  response.status = methods.empty() ? 404 : 405;
  if (!methods.empty()) response.headers.set("Allow", methods);
  const std::string text(reason_phrase(response.status));
  JsonWriter json;
  json.begin_object().key("error");
  write_openai_error(json,
                     {response.status, text, {}, methods.empty() ? "not_found" : "method_not_allowed", {}});
  json.member("detail", text).end_object();
  response.body = json.take();
  return response;
}

Family family_of_path(std::string_view path) {
  if (path.starts_with("/v1/messages")) return Family::anthropic;
  return path.starts_with("/v1/") || path.starts_with("/openai/") ? Family::openai : Family::native;
}

}  // namespace fulmar
