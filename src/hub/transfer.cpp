#include "hub/transfer.h"

#include <curl/curl.h>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace fulmar {
namespace {

constexpr long kConnectSeconds = 15, kStalledSeconds = 30, kMostRedirects = 5;
constexpr size_t kMostText = size_t{64} << 20;
constexpr size_t kShown = 200;  // bytes of an error's body

struct EndHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// A handle with what every request to a hub has in common.
class Request {
 public:
  Request(const HubAccess& hub, const std::string& url) : handle_(start()), url_(url) {
    CURL* curl = handle_.get();
    const bool secure = url.starts_with("https:");
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMostRedirects);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "fulmar");
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why_);
    if (!hub.token.empty()) {  // unlike a header of our own, libcurl keeps this from other hosts
      curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, hub.token.c_str());
    }
  }

  CURL* get() const { return handle_.get(); }
  long status() const {
    long status = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  Error transport_error(CURLcode code) const {
    return {ErrorKind::unavailable,
            fmt::format("{}: {}", url_, why_[0] != 0 ? why_ : curl_easy_strerror(code))};
  }
  Error status_error(const std::string& body) const {
    const long code = status();
    std::string text = fmt::format("{}: HTTP {}", url_, code);
    if (code == 401 || code == 403) text += "; a token with access may help: set HF_TOKEN";
    if (!body.empty()) text += ": " + body.substr(0, kShown);
    const ErrorKind kind = code == 404                  ? ErrorKind::not_found
                           : code == 401 || code == 403 ? ErrorKind::invalid
                                                        : ErrorKind::unavailable;
    return {kind, text};
  }

 private:
  static CURL* start() {
    static const CURLcode kReady = curl_global_init(CURL_GLOBAL_DEFAULT);
    return kReady == CURLE_OK ? curl_easy_init() : nullptr;
  }

  const std::unique_ptr<CURL, EndHandle> handle_;
  const std::string url_;
  char why_[CURL_ERROR_SIZE] = {};
};

size_t take_text(char* bytes, size_t, size_t count, void* target) {
  auto& text = *static_cast<std::string*>(target);
  if (text.size() + count > kMostText) return 0;
  text.append(bytes, count);
  return count;
}

// After a redirect another answer begins: what headers said before is void.
bool begins_answer(std::string_view line) { return line.starts_with("HTTP/"); }

// What follows `start` in a header's line, whatever the case of its letters.
std::optional<std::string_view> rest_of_header(std::string_view line, std::string_view start) {
  if (line.size() <= start.size() || ::strncasecmp(line.data(), start.data(), start.size()) != 0) return {};
  return line.substr(start.size());
}

size_t take_link(char* bytes, size_t, size_t count, void* target) {
  auto& link = *static_cast<std::string*>(target);
  const std::string_view line(bytes, count);
  if (begins_answer(line)) link.clear();
  if (const auto rest = rest_of_header(line, "link:")) link = *rest;
  return count;
}

// What arrives for one file. A 206 goes on at `have`, a 200 begins anew, anything else is an error's text.
struct Arrival {
  const Request& request;
  std::FILE* file;
  int64_t have, size;
  const std::function<bool(int64_t)>& progress;

  int64_t written = -1;      // bytes in the file; -1: nothing has come yet
  int64_t range_start = -1;  // from Content-Range
  std::string body;          // of an error
  std::string refusal;       // why we broke off
  bool called_off = false;

  bool begin() {
    const long status = request.status();
    if (status == 206 && range_start != have) {
      refusal = fmt::format("the server goes on at byte {}; wanted {}", range_start, have);
      return false;
    }
    written = status == 206 ? have : 0;
    if (::ftruncate(fileno(file), written) == 0 && std::fseek(file, written, SEEK_SET) == 0) return true;
    refusal = std::strerror(errno);
    return false;
  }

  size_t take(const char* bytes, size_t count) {
    const long status = request.status();
    if (status != 200 && status != 206) {
      body.append(bytes, std::min(count, kShown - std::min(kShown, body.size())));
      return count;
    }
    if (written < 0 && !begin()) return 0;
    if (size >= 0 && written + static_cast<int64_t>(count) > size) {
      refusal = fmt::format("the server sends more than the {} bytes that are listed", size);
      return 0;
    }
    if (std::fwrite(bytes, 1, count, file) != count) {
      refusal = std::strerror(errno);
      return 0;
    }
    written += static_cast<int64_t>(count);
    called_off = !progress(written);
    return called_off ? 0 : count;
  }
};

size_t take_bytes(char* bytes, size_t, size_t count, void* arrival) {
  return static_cast<Arrival*>(arrival)->take(bytes, count);
}

size_t take_header(char* bytes, size_t, size_t count, void* target) {
  auto& arrival = *static_cast<Arrival*>(target);
  const std::string_view line(bytes, count);
  if (begins_answer(line)) arrival.range_start = -1;
  if (const auto rest = rest_of_header(line, "content-range: bytes ")) {
    std::from_chars(rest->data(), rest->data() + rest->size(), arrival.range_start);
  }
  return count;
}

}  // namespace

Result<Page> fetch_page(const HubAccess& hub, const std::string& url) {
  const Request request(hub, url);
  if (request.get() == nullptr) return Error{ErrorKind::internal, "libcurl does not start"};
  Page page;
  curl_easy_setopt(request.get(), CURLOPT_WRITEFUNCTION, take_text);
  curl_easy_setopt(request.get(), CURLOPT_WRITEDATA, &page.text);
  curl_easy_setopt(request.get(), CURLOPT_HEADERFUNCTION, take_link);
  curl_easy_setopt(request.get(), CURLOPT_HEADERDATA, &page.link);
  const CURLcode code = curl_easy_perform(request.get());
  if (code != CURLE_OK) return request.transport_error(code);
  if (request.status() != 200) return request.status_error(page.text);
  return page;
}

Attempt fetch_part(const HubAccess& hub, const std::string& url, const std::filesystem::path& part,
                   int64_t have, int64_t size, const std::function<bool(int64_t bytes)>& progress) {
  using End = Attempt::End;
  const Request request(hub, url);
  if (request.get() == nullptr) return {End::refused, {ErrorKind::internal, "libcurl does not start"}};
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(part.c_str(), have > 0 ? "r+b" : "wb"));
  if (!file) return {End::refused, {ErrorKind::io, part.string() + ": " + std::strerror(errno)}};
  Arrival arrival{request, file.get(), have, size, progress};
  const std::string range = std::to_string(have) + "-";
  if (have > 0) curl_easy_setopt(request.get(), CURLOPT_RANGE, range.c_str());
  curl_easy_setopt(request.get(), CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt(request.get(), CURLOPT_WRITEDATA, &arrival);
  curl_easy_setopt(request.get(), CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(request.get(), CURLOPT_HEADERDATA, &arrival);
  const CURLcode code = curl_easy_perform(request.get());
  if (!arrival.refusal.empty()) return {End::refused, {ErrorKind::corrupt, url + ": " + arrival.refusal}};
  if (arrival.called_off)
    return {End::refused, {ErrorKind::unavailable, url + ": the transfer was called off"}};
  if (std::fflush(file.get()) != 0)
    return {End::refused, {ErrorKind::io, part.string() + ": " + std::strerror(errno)}};
  if (code != CURLE_OK) return {End::broken_off, request.transport_error(code)};
  const long status = request.status();
  if (status != 200 && status != 206) {
    const bool may_pass = status == 429 || status >= 500;
    return {may_pass ? End::broken_off : End::refused, request.status_error(arrival.body)};
  }
  const int64_t found = std::max<int64_t>(arrival.written, 0);
  if (size >= 0 && found < size) {
    return {End::broken_off,
            {ErrorKind::unavailable, fmt::format("{}: the answer ended at byte {} of {}", url, found, size)}};
  }
  return {};
}

}  // namespace fulmar
