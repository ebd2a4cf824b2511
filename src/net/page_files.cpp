// Content negotiation and caching of the embedded files (RFC 9110: ETag, If-None-Match, Accept-Encoding).
#include "net/page_files.h"

#include <algorithm>
#include <string>
#include <utility>

namespace fulmar {
namespace {

// Styles set by scripts through the CSSOM are not inline styles; so the formula and chart libraries work
// without 'unsafe-inline'.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

std::string_view type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"},
      {".woff2", "font/woff2"},
      {".txt", "text/plain; charset=utf-8"},
      {".webmanifest", "application/manifest+json"}};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

// Returns whether the field lists `gzip` with a weight other than 0.
bool takes_gzip(std::string_view accepted) {
  while (!accepted.empty()) {
    const size_t comma = std::min(accepted.find(','), accepted.size());
    std::string item(accepted.substr(0, comma));
    accepted.remove_prefix(std::min(comma + 1, accepted.size()));
    std::erase(item, ' ');
    const size_t semicolon = std::min(item.find(';'), item.size());
    if (!equals_ignoring_case(std::string_view(item).substr(0, semicolon), "gzip")) continue;
    const std::string_view weight = std::string_view(item).substr(semicolon);
    return weight.find_first_not_of(";qQ=0.") != std::string_view::npos || weight.empty();
  }
  return false;
}

// Returns whether If-None-Match lists the tag; a weak one ("W/...") counts as its strong form for GET.
bool lists_tag(std::string_view listed, std::string_view etag) {
  return listed == "*" || listed.find(etag) != std::string_view::npos;
}

}  // namespace

const PageFile* find_page_file(std::string_view name) {
  const auto files = page_files();
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const PageFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

HttpResponse answer_page_file(const HttpRequest& request, const PageFile& file) {
  HttpResponse response;
  response.content_type = type_of(file.name);
  response.headers.set("ETag", std::string(file.etag));
  response.headers.set("Cache-Control", "no-cache");  // ask each time; the tag makes that cheap
  response.headers.set("Content-Security-Policy", std::string(kContentSecurityPolicy));
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.headers.set("Referrer-Policy", "no-referrer");
  if (!file.gzip.empty()) response.headers.set("Vary", "Accept-Encoding");
  if (lists_tag(request.headers.get("If-None-Match"), file.etag)) {
    response.status = 304;
    return response;
  }
  if (!file.gzip.empty() && takes_gzip(request.headers.get("Accept-Encoding"))) {
    response.headers.set("Content-Encoding", "gzip");
    response.body = file.gzip;
  } else {
    response.body = file.content;
  }
  return response;
}

}  // namespace fulmar
