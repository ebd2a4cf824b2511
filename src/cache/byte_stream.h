// A connection to a server as a stream of bytes, plain or encrypted; every wait is bounded. Knows no protocol
// above TLS.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fulmar {

struct TlsFiles {
  std::string authorities;       // PEM; empty: those that the system trusts
  std::string certificate, key;  // PEM, our own; empty: none is shown
};

// Checks that the files can be read and parsed; the `io` Error names the first that cannot.
Status check_tls_files(const TlsFiles& files);

struct StreamTarget {
  std::string host;
  uint16_t port = 0;
  const TlsFiles* tls = nullptr;  // null: plain
  std::chrono::milliseconds connect_patience{500};
  std::chrono::milliseconds patience{2'000};  // for each read and write
};

// Used from one thread at a time. Errors: io when the other side has closed the connection; unavailable when
// it does not answer in time, or cannot be reached or trusted.
class ByteStream {
 public:
  // Connects. With TLS the host's certificate must be valid, signed by an authority and issued to the host.
  static Result<std::unique_ptr<ByteStream>> connect(const StreamTarget& target);
  virtual ~ByteStream() = default;

  virtual Status write(std::string_view bytes) = 0;       // all of them
  virtual Result<size_t> read(std::span<char> into) = 0;  // at least one
};

}  // namespace fulmar
