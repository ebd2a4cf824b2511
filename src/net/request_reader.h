// Parses bytes to one request, with a bound on everything that the client chooses. Knows no socket and no
// clock: the caller puts received bytes into a ReadBuffer and calls this; so does the fuzzer.
#pragma once

#include <cstddef>
#include <memory>

#include "net/http_format.h"
#include "net/http_message.h"
#include "net/read_buffer.h"

namespace fulmar {

class RequestReader {
 public:
  enum class Step {
    more,     // the buffer has nothing more to take; call again when it has
    done,     // the head, or the body, is whole
    refused,  // see refusal()
  };

  // Begins a request; `most_head_bytes` bounds its request line and fields.
  explicit RequestReader(size_t most_head_bytes);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Takes the head from the buffer. Skips empty lines before it (RFC 9112, 2.2).
  Step read_head(ReadBuffer& buffer);
  // Sets the most bytes of the body; call it between head and body. Size lines and extensions of chunks, and
  // the trailer, may add as many as a head.
  void limit_body(size_t most_bytes);
  // Takes the body, or the part of it in the buffer.
  Step read_body(ReadBuffer& buffer);

  bool begun() const;  // more than empty lines has come
  bool refused() const { return !refusal_.text.empty(); }
  const Refusal& refusal() const { return refusal_; }
  // Returns the request, which is filled while it is parsed; the body comes at the end.
  HttpRequest& request() { return request_; }
  size_t body_bytes_received() const { return body_received_; }  // framing included
  bool body_is_next() const;                                     // a body follows the head
  bool keep_alive() const;
  bool http_1_0() const;

 private:
  struct Parser;

  bool skip_empty_lines(ReadBuffer& buffer);
  Step refuse(int status, std::string text);
  void take_head();
  size_t most_raw() const;

  const std::unique_ptr<Parser> parser_;
  const size_t most_head_;
  size_t most_body_ = 0;
  size_t skipped_ = 0;  // bytes of empty lines
  size_t head_received_ = 0;
  size_t body_received_ = 0;
  HttpRequest request_;
  Refusal refusal_;
};

}  // namespace fulmar
