// The text that `fulmar serve` prints once it answers: address, model, access, and use of the machine. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "app/served/footing.h"

namespace fulmar {

struct Greeting {
  std::string version;
  std::string address;  // "127.0.0.1:8000"
  std::string model;    // empty: none yet
  Footing footing;      // of that model
  int io_threads = 0;
  std::string sessions;  // where they are stored; empty: in memory only
  bool password = false;
  std::string keys_file;        // empty: none
  bool open_to_others = false;  // other hosts can reach the address
  bool open_translate = false;
};

std::string greeting(const Greeting& facts);

}  // namespace fulmar
