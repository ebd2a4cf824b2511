// The only includer of OpenSSL's TLS part.
#include "cache/byte_stream.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"

namespace fulmar {
namespace {

using std::chrono::milliseconds;

Error unreachable(std::string_view why) { return {ErrorKind::unavailable, std::string(why)}; }
Error closed() { return {ErrorKind::io, "the server has closed the connection"}; }
Error too_slow() { return unreachable("no answer in time"); }

using Socket = Descriptor;

// Waits for events: the only place where that happens, since sockets stay non-blocking.
bool wait_for(const Socket& socket, short events, milliseconds patience) {
  pollfd waiting{.fd = socket.number(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

Result<Socket> connect_to(const addrinfo& address, milliseconds patience) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
  if (socket.number() < 0) return unreachable(std::strerror(errno));
  if (::connect(socket.number(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return unreachable(std::strerror(errno));
    if (!wait_for(socket, POLLOUT, patience)) return unreachable("no connection in time");
    int failure = 0;
    socklen_t size = sizeof failure;
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return unreachable(std::strerror(failure));
  }
  const int on = 1;
  ::setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

Result<Socket> connect_to(const StreamTarget& target) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(target.port);
  if (const int failure = ::getaddrinfo(target.host.c_str(), port.c_str(), &hints, &found); failure != 0) {
    return unreachable(::gai_strerror(failure));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  Error last = unreachable("the name has no address");
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    auto socket = connect_to(*address, target.connect_patience);
    if (socket.ok()) return socket;
    last = socket.error();
  }
  return last;
}

class PlainStream final : public ByteStream {
 public:
  PlainStream(Socket socket, milliseconds patience) : socket_(std::move(socket)), patience_(patience) {}

  Status write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(static_cast<size_t>(sent));
      } else if (errno == EAGAIN) {
        if (!wait_for(socket_, POLLOUT, patience_)) return too_slow();
      } else if (errno != EINTR) {
        return closed();
      }
    }
    return {};
  }

  Result<size_t> read(std::span<char> into) override {
    for (;;) {
      const ssize_t got = ::recv(socket_.number(), into.data(), into.size(), 0);
      if (got > 0) return static_cast<size_t>(got);
      if (got == 0) return closed();
      if (errno == EAGAIN) {
        if (!wait_for(socket_, POLLIN, patience_)) return too_slow();
      } else if (errno != EINTR) {
        return closed();
      }
    }
  }

 private:
  const Socket socket_;
  const milliseconds patience_;
};

struct FreeTls {
  void operator()(SSL* tls) const { SSL_free(tls); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Tls = std::unique_ptr<SSL, FreeTls>;
using TlsContext = std::unique_ptr<SSL_CTX, FreeTls>;

Error tls_error(const std::string& what) {
  std::string why = "unknown reason";
  while (const unsigned long code = ERR_get_error()) {  // the last one is the nearest to what went wrong
    if (const char* text = ERR_reason_error_string(code)) why = text;
  }
  return unreachable(fmt::format("TLS: {}: {}", what, why));
}

class TlsStream final : public ByteStream {
 public:
  TlsStream(Socket socket, TlsContext context, Tls tls, milliseconds patience)
      : socket_(std::move(socket)), context_(std::move(context)), tls_(std::move(tls)), patience_(patience) {}

  Status greet() {
    return carry_out([this] { return SSL_connect(tls_.get()); },
                     [this] {
                       if (const long verdict = SSL_get_verify_result(tls_.get()); verdict != X509_V_OK) {
                         return unreachable(fmt::format("TLS: the server's certificate: {}",
                                                        X509_verify_cert_error_string(verdict)));
                       }
                       return tls_error("no agreement with the server");
                     });
  }

  Status write(std::string_view bytes) override {
    while (!bytes.empty()) {
      size_t sent = 0;
      FULMAR_TRY(
          carry_out([&] { return SSL_write_ex(tls_.get(), bytes.data(), bytes.size(), &sent); }, closed));
      bytes.remove_prefix(sent);
    }
    return {};
  }

  Result<size_t> read(std::span<char> into) override {
    size_t got = 0;
    FULMAR_TRY(carry_out([&] { return SSL_read_ex(tls_.get(), into.data(), into.size(), &got); }, closed));
    return got;
  }

 private:
  // Repeats `action` until it succeeds, waiting for what TLS wants in between.
  template <class Action, class Failure>
  Status carry_out(Action action, Failure failure) {
    for (;;) {
      ERR_clear_error();
      const int done = action();
      if (done > 0) return {};
      switch (SSL_get_error(tls_.get(), done)) {
        case SSL_ERROR_WANT_READ:
          if (!wait_for(socket_, POLLIN, patience_)) return too_slow();
          break;
        case SSL_ERROR_WANT_WRITE:
          if (!wait_for(socket_, POLLOUT, patience_)) return too_slow();
          break;
        default:
          return failure();
      }
    }
  }

  const Socket socket_;
  const TlsContext context_;
  const Tls tls_;
  const milliseconds patience_;
};

Status load_files(SSL_CTX& context, const TlsFiles& files) {
  const bool trusting = files.authorities.empty() ? SSL_CTX_set_default_verify_paths(&context) == 1
                                                  : SSL_CTX_load_verify_locations(
                                                        &context, files.authorities.c_str(), nullptr) == 1;
  if (!trusting) return tls_error(fmt::format("authorities '{}'", files.authorities));
  if (files.certificate.empty()) return {};
  if (SSL_CTX_use_certificate_chain_file(&context, files.certificate.c_str()) != 1) {
    return tls_error(fmt::format("certificate '{}'", files.certificate));
  }
  if (SSL_CTX_use_PrivateKey_file(&context, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return tls_error(fmt::format("key '{}'", files.key));
  }
  return {};
}

bool is_numeric(const std::string& host) {
  in6_addr bytes;
  return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

Result<std::unique_ptr<ByteStream>> connect_tls(const StreamTarget& target, Socket socket) {
  TlsContext context(SSL_CTX_new(TLS_client_method()));
  if (!context) return tls_error("no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  // The rest of a write may come from another place in memory: what matters is that it is the same bytes.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  FULMAR_TRY(load_files(*context, *target.tls));
  Tls tls(SSL_new(context.get()));
  if (!tls || SSL_set_fd(tls.get(), socket.number()) != 1) return tls_error("no connection");
  const char* host = target.host.c_str();
  if (is_numeric(target.host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), host);
  } else {
    SSL_set1_host(tls.get(), host);
    SSL_set_tlsext_host_name(tls.get(), host);
  }
  auto stream =
      std::make_unique<TlsStream>(std::move(socket), std::move(context), std::move(tls), target.patience);
  FULMAR_TRY(stream->greet());
  return std::unique_ptr<ByteStream>(std::move(stream));
}

}  // namespace

Status check_tls_files(const TlsFiles& files) {
  ERR_clear_error();
  const TlsContext context(SSL_CTX_new(TLS_client_method()));
  const Status loaded = context ? load_files(*context, files) : tls_error("no context");
  return loaded.ok() ? Status() : Error{ErrorKind::io, loaded.error().text};
}

Result<std::unique_ptr<ByteStream>> ByteStream::connect(const StreamTarget& target) {
  FULMAR_ASSIGN(Socket socket, connect_to(target));
  if (target.tls != nullptr) return connect_tls(target, std::move(socket));
  return std::unique_ptr<ByteStream>(std::make_unique<PlainStream>(std::move(socket), target.patience));
}

}  // namespace fulmar
