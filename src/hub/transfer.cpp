#include "hub/transfer.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include "hub/close_file.h"
#include "hub/web_get.h"

namespace fulmar {
namespace {

constexpr size_t kMostText = size_t{64} << 20;
constexpr size_t kShown = 200;                        // bytes of an error's body
constexpr int64_t kBetweenLooks = int64_t{16} << 20;  // bytes between two looks at the disk

Result<WebGet> request_to(const HubAccess& hub, const std::string& url) {
  FULMAR_ASSIGN(Url address, parse_web_url(url));
  return WebGet{.url = std::move(address), .headers = {}, .token = hub.token, .stopped = hub.stopped};
}

Error status_error(const std::string& url, int status, const std::string& body) {
  std::string text = fmt::format("{}: HTTP {}", url, status);
  if (status == 401 || status == 403) text += "; a token with access may help: set HF_TOKEN";
  if (!body.empty()) text += ": " + body.substr(0, kShown);
  const ErrorKind kind = status == 404                    ? ErrorKind::not_found
                         : status == 401 || status == 403 ? ErrorKind::invalid
                                                          : ErrorKind::unavailable;
  return {kind, text};
}

// Returns where the body of a 206 begins in the whole file; -1: unknown.
int64_t range_start(const Headers& headers) {
  constexpr std::string_view kUnit = "bytes ";
  std::string_view range = headers.get("Content-Range");
  int64_t start = -1;
  if (!range.starts_with(kUnit)) return start;
  range.remove_prefix(kUnit.size());
  std::from_chars(range.data(), range.data() + range.size(), start);
  return start;
}

// The bytes of one file as they arrive. A 206 continues at `have`, a 200 begins anew, others are error texts.
struct Arrival {
  std::FILE* file;
  int64_t have, size, most;
  const std::filesystem::path& part;
  const std::function<bool(int64_t)>& progress;

  int status = 0;
  int64_t written = 0;    // bytes in the file
  int64_t unchecked = 0;  // of them since the disk was looked at
  std::string body;       // of an error
  std::string refusal;    // why we broke off
  bool called_off = false;

  bool carries_file() const { return status == 200 || status == 206; }

  bool begin(int found, const Headers& headers) {
    status = found;
    if (!carries_file()) return true;
    if (status == 206 && range_start(headers) != have) {
      refusal = fmt::format("the server goes on at byte {}; wanted {}", range_start(headers), have);
      return false;
    }
    written = status == 206 ? have : 0;
    if (::ftruncate(fileno(file), written) == 0 && std::fseek(file, written, SEEK_SET) == 0) return true;
    refusal = std::strerror(errno);
    return false;
  }

  // Returns whether the reserve stays free; asks again as bytes arrive, since others write to the disk, too.
  bool leaves_reserve(int64_t bytes) {
    unchecked += bytes;
    if (unchecked < kBetweenLooks) return true;
    unchecked = 0;
    if (bytes_to_spare(part.parent_path()) > kBetweenLooks) return true;
    refusal =
        fmt::format("{} has no more than {} MB free", part.parent_path().string(), kDiskReserve / 1'000'000);
    return false;
  }

  bool take(std::string_view bytes) {
    if (!carries_file()) {
      body.append(bytes.substr(0, kShown - std::min(kShown, body.size())));
      return true;
    }
    if (size >= 0 && written + static_cast<int64_t>(bytes.size()) > size) {
      refusal = fmt::format("the server sends more than the {} bytes that are listed", size);
      return false;
    }
    if (written + static_cast<int64_t>(bytes.size()) > most) {
      refusal = fmt::format("the file has more than the {} bytes that may be fetched", most);
      return false;
    }
    if (!leaves_reserve(static_cast<int64_t>(bytes.size()))) return false;
    if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) {
      refusal = std::strerror(errno);
      return false;
    }
    written += static_cast<int64_t>(bytes.size());
    called_off = !progress(written);
    return !called_off;
  }
};

}  // namespace

int64_t bytes_to_spare(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) return std::numeric_limits<int64_t>::max();  // the write itself will fail
  const auto free =
      static_cast<int64_t>(std::min<uintmax_t>(space.available, std::numeric_limits<int64_t>::max()));
  return std::max<int64_t>(0, free - kDiskReserve);
}

Result<Page> fetch_page(const HubAccess& hub, const std::string& url) {
  FULMAR_ASSIGN(const WebGet request, request_to(hub, url));
  Page page;
  int status = 0;
  bool too_long = false;
  const Status got = web_get(request, {.head =
                                           [&](int found, const Headers& headers) {
                                             status = found;
                                             page.link = headers.get("Link");
                                             return true;
                                           },
                                       .data =
                                           [&](std::string_view bytes) {
                                             too_long = page.text.size() + bytes.size() > kMostText;
                                             if (!too_long) page.text.append(bytes);
                                             return !too_long;
                                           }});
  if (too_long) {
    return Error{ErrorKind::resource, fmt::format("{}: the answer has more than {} bytes", url, kMostText)};
  }
  FULMAR_TRY(got);
  if (status != 200) return status_error(url, status, page.text);
  return page;
}

Attempt fetch_part(const HubAccess& hub, const std::string& url, const std::filesystem::path& part,
                   const FileBytes& bytes, const std::function<bool(int64_t bytes)>& progress) {
  using End = Attempt::End;
  const auto [have, size, most] = bytes;
  auto request = request_to(hub, url);
  if (!request.ok()) return {End::refused, request.error()};
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(part.c_str(), have > 0 ? "r+b" : "wb"));
  if (!file) return {End::refused, {ErrorKind::io, part.string() + ": " + std::strerror(errno)}};
  Arrival arrival{file.get(), have, size, most, part, progress};
  if (have > 0) request->headers.set("Range", fmt::format("bytes={}-", have));
  const Status got = web_get(
      *request, {.head = [&](int status, const Headers& headers) { return arrival.begin(status, headers); },
                 .data = [&](std::string_view data) { return arrival.take(data); }});
  if (!arrival.refusal.empty()) return {End::refused, {ErrorKind::corrupt, url + ": " + arrival.refusal}};
  if (arrival.called_off)
    return {End::refused, {ErrorKind::unavailable, url + ": the transfer was called off"}};
  if (std::fflush(file.get()) != 0)
    return {End::refused, {ErrorKind::io, part.string() + ": " + std::strerror(errno)}};
  if (!got.ok()) {
    const bool may_pass = got.error().kind == ErrorKind::unavailable;
    return {may_pass ? End::broken_off : End::refused, got.error()};
  }
  if (!arrival.carries_file()) {
    const bool may_pass = arrival.status == 429 || arrival.status >= 500;
    return {may_pass ? End::broken_off : End::refused, status_error(url, arrival.status, arrival.body)};
  }
  if (size >= 0 && arrival.written < size) {
    return {End::broken_off,
            {ErrorKind::unavailable,
             fmt::format("{}: the answer ended at byte {} of {}", url, arrival.written, size)}};
  }
  return {};
}

}  // namespace fulmar
