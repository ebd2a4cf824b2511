// Under which names workers' sessions lie, so that each name of a worker has a file of its own whatever else
// runs and in whatever order.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "control/worker_spec.h"

namespace fulmar {

// Returns the name of the file for the sessions of such a worker, of which `number` - 1 others run. Two names
// of workers have two files: what a file's name should not hold is written as %XX. A worker without a name is
// known by its model and GPU.
std::string session_file_name(const WorkerSpec& spec, int number = 1);
// Returns the name that older versions gave to the file of that worker, as they gave it to others.
std::string former_session_file_name(const WorkerSpec& spec);

// Gives the file at `from`, and what lies beside it, the name `to`, where there is a file at `from` and none
// at `to`. Returns whether it did.
bool take_over_sessions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace fulmar
