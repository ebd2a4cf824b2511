// The device, size and memory of a served model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fulmar {

struct Footing {
  std::string device;        // "cpu (AVX-512, 8 threads)"
  std::string architecture;  // "RWKV-7, 1.5 billion parameters, f16"
  size_t weights = 0;        // bytes, those of a draft model included
  size_t workspace = 0;      // bytes of one step, those of a draft model included
  size_t per_slot = 0;       // bytes of a state and its ring
  int64_t slots = 0;         // sequences that run at once
  int64_t kept = 0;          // slots for sessions and prompt prefixes
};

}  // namespace fulmar
