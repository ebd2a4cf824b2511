// What `fulmar serve` says once it answers: where, what, who may ask, and what it takes of the machine. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace fulmar {

// What a served model stands on.
struct Footing {
  std::string device;        // "cpu (AVX-512, 8 threads)"
  std::string architecture;  // "RWKV-7, 1.5 billion parameters, f16"
  size_t weights = 0;        // bytes, those of a draft model included
  size_t workspace = 0;      // bytes of one step, likewise
  size_t per_slot = 0;       // bytes of a state and its ring
  int64_t slots = 0;         // sequences that run at once
  int64_t kept = 0;          // slots for sessions and prompt beginnings
};

struct Greeting {
  std::string version;
  std::string address;  // "127.0.0.1:8000"
  std::string model;    // empty: none yet
  Footing footing;      // of that model
  int io_threads = 0;
  std::string sessions;  // where they are kept; empty: in memory only
  bool password = false;
  std::string keys_file;        // empty: none
  bool open_to_others = false;  // other hosts can reach the address
  bool open_translate = false;
};

std::string greeting(const Greeting& facts);

}  // namespace fulmar
