// Bytes received and not yet parsed. The only buffer into which bytes are read from the network
// (tools/check_readers.py): it cannot be made without a bound.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <string_view>

namespace fulmar {

// Reading into a full one fails with http::error::buffer_overflow.
class ReadBuffer : public boost::beast::flat_buffer {
 public:
  explicit ReadBuffer(size_t most_bytes) : boost::beast::flat_buffer(most_bytes) {}

  size_t room() const { return max_size() - size(); }
  std::string_view text() const { return {static_cast<const char*>(data().data()), size()}; }
};

}  // namespace fulmar
