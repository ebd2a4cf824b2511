// Load balancing: which worker answers a request, by sessions' homes (affinity), else the least loaded.
// Pure: looks at snapshots, touches nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/worker_view.h"
#include "net/http_message.h"
#include "net/json_value.h"

namespace fulmar {

struct Wish {
  std::string model;                  // as the client wrote it; empty: any
  std::string home;                   // id of the worker that has the session; empty: none yet
  bool home_is_guess = false;         // then it is passed over when it is much busier than others
  std::vector<std::string> excluded;  // ids tried already
};

// The ready worker to ask: the session's home while it is fit (a guessed one: while it is not much busier),
// else the one with the fewest rows queued or under way among those that serve the model. A model that nobody
// serves is not an error: the workers decide then. Null when no worker is ready. Names of the form "<model>
// <state>" mean the model.
WorkerPtr choose_worker(const Fleet& fleet, const Wish& wish);

struct SessionKey {
  std::string text;      // empty: the request belongs to no conversation
  bool guessed = false;  // from the first turn: others may have begun with the same words
};

// Begins with a hash of what the request shows to say whose it is, if anything, since two owners may call
// their sessions alike. Then X-Fulmar-Session, else the body's "session_id", each of at most 512 bytes
// (workers refuse longer ones), else a hash of the conversation's first turn, which clients that resend their
// history repeat each time: the messages up to the first of the user, or a lone prompt's first paragraph.
SessionKey session_key(const Headers& headers, const JsonValue& body);

}  // namespace fulmar
