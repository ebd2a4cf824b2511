// Inflating in bounded pieces.
#include "net/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "base/meter.h"

namespace fulmar {

size_t most_inflated(size_t bytes) {
  constexpr size_t kAlways = size_t{4} << 20, kTimes = 100;
  return bytes > (std::numeric_limits<size_t>::max() - kAlways) / kTimes ? bytes : kAlways + kTimes * bytes;
}

Result<std::string> gunzip(std::string_view bytes, size_t most) {
  constexpr int kGzipOnly = 16;
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + kGzipOnly) != Z_OK) {
    return Error{ErrorKind::resource, "gzip: no memory to decompress with"};
  }
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> owner(&stream, inflateEnd);
  if (bytes.size() > std::numeric_limits<uInt>::max()) {
    return Error{ErrorKind::resource, fmt::format("gzip: {} bytes are too many", bytes.size())};
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  const size_t bound = std::min(most, most_inflated(bytes.size()));
  std::string text;
  std::array<char, 65536> piece;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    status = inflate(&stream, Z_NO_FLUSH);
    const size_t got = piece.size() - stream.avail_out;
    count_work(got);
    if (status == Z_BUF_ERROR || (status == Z_OK && got == 0 && stream.avail_in == 0)) {
      return Error{ErrorKind::invalid, fmt::format("gzip: the {} bytes end too early", bytes.size())};
    }
    if (status != Z_OK && status != Z_STREAM_END) {
      return Error{ErrorKind::invalid, fmt::format("gzip: {}", stream.msg ? stream.msg : "not in its form")};
    }
    if (text.size() + got > bound) {
      return Error{ErrorKind::resource,
                   fmt::format("gzip: more than {} bytes come out of {}", bound, bytes.size())};
    }
    text.append(piece.data(), got);
  }
  if (stream.avail_in == 0) return text;
  return Error{ErrorKind::invalid, fmt::format("gzip: {} bytes follow its end", stream.avail_in)};
}

}  // namespace fulmar
