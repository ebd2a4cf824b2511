// Interprets the small part of Python's pickle language that PyTorch checkpoints use. It builds plain data
// and executes nothing: the few global names that it accepts are matched as text.
#pragma once

#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "files/bytes.h"

namespace fulmar {

struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,      // integer is 0 or 1
    integer,      // integer
    big_integer,  // text holds its little-endian two's complement bytes
    real,         // not kept: nothing here needs one
    text,         // text
    global,       // text is "module\nname", one of the allowed ones
    tuple,        // items
    list,         // items
    dict,         // items: key, value, key, value ...
    storage,      // items[0] is the persistent id
    tensor,       // items are the arguments of torch._utils._rebuild_tensor_v2
    mark,         // never inside a result
  };

  Kind kind = Kind::none;
  int64_t integer = 0;
  std::string_view text;                  // inside the pickle's bytes
  std::vector<const PickleValue*> items;  // inside the same Pickle; cycles are possible

  bool is(Kind wanted) const { return kind == wanted; }
  // Returns the value of a text key in a dict; null when absent. The last one wins, as in Python.
  const PickleValue* entry(std::string_view key) const;
};

struct Pickle {
  std::deque<PickleValue> values;  // owns every value
  const PickleValue* root = nullptr;
  size_t length = 0;  // bytes up to and including STOP
};

// Reads the pickle at the start of `bytes`. Errors name the opcode and its offset. Bounded for any input:
// bytes, values, stack, memo and nesting have limits, and no container is copied.
Result<Pickle> read_pickle(ByteSpan bytes);

}  // namespace fulmar
