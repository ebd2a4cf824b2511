// Options and limits of a server, set at its start.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/client_address.h"
#include "server/core/api_keys.h"

namespace fulmar {

struct ServerLimits {
  int64_t max_tokens = 65536;                 // per row; larger requests are clamped
  int64_t max_request_rows = 4096;            // rows of one request; more are refused
  int64_t max_prompt_tokens = 1 << 24;        // over all rows of one request
  int64_t max_mixture_files = 4;              // tuned states of one mixture
  uint64_t max_request_work = 1'000'000'000;  // steps of reading one request (base/meter.h)
  size_t max_body_bytes = size_t{64} << 20;
  size_t max_unkeyed_body_bytes = size_t{1} << 20;  // while a key is asked for and no header shows it
  size_t max_file_bytes = size_t{512} << 20;        // bodies that are files
};

// Bounds of the adapters that are registered, and which files may be (docs/adapters.md).
struct AdapterLimits {
  uint64_t host_bytes = uint64_t{1024} << 20;   // of all contents in host memory
  uint64_t device_bytes = uint64_t{512} << 20;  // of those on one model's devices
  bool any_base = false;                        // fingerprints of base models are not compared
  std::string root;           // folder of the files that clients may name; empty: they may name none
  bool load_by_name = false;  // vLLM's routes load from there though other hosts reach the server
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  int io_threads = 2;
  std::string password;                         // opens everything; empty: there is none
  std::optional<std::vector<ApiKey>> api_keys;  // empty optional: there are none
  std::string worker_token;  // secret shared with the control plane that started this worker; empty: none did
  std::vector<std::string> allowed_hosts;  // names that Host may hold when neither password nor keys are set
  std::vector<Network> trusted_proxies;    // whose X-Forwarded-For is believed
  // Why sessions, or stored responses, live in memory only though a file was wanted for them; empty: they do
  // not.
  std::string sessions_in_memory, responses_in_memory;
  std::string responses_db;  // file for the answers of /v1/responses; empty: they go with the server
  bool responses_db_asked_for = false;  // named explicitly: a file that cannot be used is an error
  bool responses_durable = false;       // the file survives a power failure, too
  bool share_prefixes = false;          // owners share cached prefixes and compiled constraints
  bool auth_all = false;
  bool open_translate = false;
  bool recommended_sampling = false;  // default sampling of chats: as the model's authors advise
  bool openai_defaults = false;       // default sampling and length: as in OpenAI's API
  bool strict_model = false;          // an unknown model name is 404 instead of the default model
  int64_t prefill_chunk = 256;        // the engine's; shown on status pages
  ServerLimits limits;
  AdapterLimits adapters;
  bool loading = false;                      // /health says so until Server::loaded()
  std::chrono::milliseconds grace{30'000};   // how long a graceful stop lets running requests go on
  std::chrono::milliseconds drain_delay{0};  // before that: /health answers 503, requests are served
  // Called at the end with the number of responses that could not be stored, if there are any.
  std::function<void(int64_t)> on_lost;
};

}  // namespace fulmar
