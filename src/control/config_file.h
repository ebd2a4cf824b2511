// The workers that a configuration file asks for. YAML:
//
//   workers:
//     - name: chat                # required, unique
//       model_path: rwkv7.pth     # and every other field of a start request
//       restart: always           # default here: on-failure
//       args: ["--cache-device", "2048"]   # further arguments of `fulmar serve`
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "control/worker_spec.h"

namespace fulmar {

// Parses a configuration; an invalid Error names the worker and the field, and no part of a file with an
// error is used.
Result<std::vector<WorkerSpec>> parse_config(const std::string& yaml, const WorkerSurroundings& surroundings);
Result<std::vector<WorkerSpec>> read_config(const std::string& path, const WorkerSurroundings& surroundings);

}  // namespace fulmar
