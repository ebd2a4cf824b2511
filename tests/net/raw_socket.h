// A blocking TCP client for tests that look at the very bytes on the wire. Every wait ends after kPatience.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace fulmar::test {

inline constexpr std::chrono::seconds kPatience{30};

class RawSocket {
 public:
  // receive_buffer: bytes that the system holds for this socket, 0 for its default.
  // from: the address that it comes from, of 127.0.0.0/8; null: the system's choice.
  explicit RawSocket(uint16_t port, int receive_buffer = 0, const char* from = nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (from) {
      sockaddr_in own{};
      own.sin_family = AF_INET;
      ::inet_pton(AF_INET, from, &own.sin_addr);
      ::bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own);
    }
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  explicit RawSocket(int fd, bool connected) : fd_(fd), connected_(connected) {}
  ~RawSocket() { close(); }
  RawSocket(RawSocket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        connected_(other.connected_),
        received_(std::move(other.received_)) {}
  RawSocket& operator=(RawSocket&&) = delete;

  bool connected() const { return connected_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Receives once; false at the end of the stream, on an error or when nothing comes.
  bool receive(size_t at_most = 1 << 16) {
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) <= 0)
      return false;
    std::string piece(at_most, '\0');
    const ssize_t count = ::recv(fd_, piece.data(), piece.size(), 0);
    if (count <= 0) return false;
    received_.append(piece, 0, static_cast<size_t>(count));
    return true;
  }

  // What comes up to and with `end`; everything up to the end of the stream when `end` never comes.
  std::string read_until(std::string_view end) {
    size_t at;
    while ((at = received_.find(end)) == std::string::npos) {
      if (!receive()) return std::exchange(received_, {});
    }
    std::string out = received_.substr(0, at + end.size());
    received_.erase(0, at + end.size());
    return out;
  }

  std::string read_exactly(size_t count) {
    while (received_.size() < count && receive()) continue;
    std::string out = received_.substr(0, count);
    received_.erase(0, count);
    return out;
  }

  std::string read_to_end() {
    while (receive()) continue;
    return std::exchange(received_, {});
  }

  // One chunk's content; empty for the last one.
  std::string read_chunk() {
    const std::string size_line = read_until("\r\n");
    const size_t size = std::stoul("0" + size_line, nullptr, 16);
    std::string chunk = read_exactly(size + 2);
    chunk.resize(std::min(chunk.size(), size));
    return chunk;
  }

  // The head and, by its Content-Length, the body of one response.
  std::pair<std::string, std::string> read_response() {
    std::string head = read_until("\r\n\r\n");
    const size_t at = head.find("Content-Length: ");
    std::string body = at == std::string::npos ? "" : read_exactly(std::stoul(head.substr(at + 16)));
    return {std::move(head), std::move(body)};
  }

  // Says that nothing more will be sent; what comes can still be read.
  void end_input() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Closes so that the other side sees a reset.
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  int fd_;
  bool connected_ = false;
  std::string received_;
};

// A listener whose connections the test answers by hand.
class RawListener {
 public:
  RawListener() : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::listen(fd_, 16);
    socklen_t length = sizeof address;
    ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  ~RawListener() { ::close(fd_); }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  uint16_t port() const { return port_; }
  RawSocket accept() {
    const int fd = ::accept(fd_, nullptr, nullptr);
    return RawSocket(fd, fd >= 0);
  }

 private:
  int fd_;
  uint16_t port_ = 0;
};

}  // namespace fulmar::test
