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

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  int io_threads = 2;
  std::string password;                         // opens everything; empty: there is none
  std::optional<std::vector<ApiKey>> api_keys;  // each opens what its entry allows; nothing: there are none
  std::string worker_token;  // with which the worker of a control plane proves itself; empty: it is none
  std::vector<std::string> allowed_hosts;  // names in Host that are this server, where nothing is asked for
  std::vector<Network> trusted_proxies;    // whose X-Forwarded-For is believed
  // Why sessions, or stored responses, live in memory only though a file was wanted for them; empty: they do
  // not.
  std::string sessions_in_memory, responses_in_memory;
  std::string responses_db;  // file for the answers of /v1/responses; empty: they go with the server
  bool responses_db_asked_for = false;  // by name: a file that cannot be used is an error
  bool responses_durable = false;       // what that file has outlives a power failure, too
  bool share_prefixes = false;          // what one owner has sent saves time to others, too
  bool auth_all = false;
  bool open_translate = false;
  bool recommended_sampling = false;  // chats take what the model's authors advise where a request is silent
  bool openai_defaults = false;       // what OpenAI's API takes where a request is silent
  bool strict_model = false;          // an unknown model name is 404 instead of the default model
  int64_t prefill_chunk = 256;        // of the engine; shown on status pages
  ServerLimits limits;
  bool loading = false;                      // until Server::loaded(), /health says so
  std::chrono::milliseconds grace{30'000};   // how long a graceful stop lets running requests go on
  std::chrono::milliseconds drain_delay{0};  // how long before that it answers /health with 503 and goes on
  // Called at the end with how many stored responses nobody will find, where there are any.
  std::function<void(int64_t)> on_lost;
};

}  // namespace fulmar
