// Gathers facts about this machine for `fulmar doctor`. Changes nothing, and makes no folder.
#pragma once

#include <cstdint>
#include <string>

#include "app/doctor/doctor_checks.h"

namespace fulmar {

struct DoctorFlags {
  std::string model;  // as in --model
  std::string host = "127.0.0.1";
  uint16_t port = 8000;
  std::string session_db = "rwkv_sessions.db";
};

MachineFacts look_around(const DoctorFlags& flags);

}  // namespace fulmar
