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
  bool draining = false;              // those that take nothing new are asked, too
};

// Returns the ready worker to ask: the session's home while it is fit (a guessed one: while it is not much
// busier), else the one with the fewest rows queued or under way among those that serve the model. A model
// that nobody serves is not an error: the workers decide then. Null when no worker is ready. A name of the
// form "<model> <state>" means the model.
WorkerPtr choose_worker(const Fleet& fleet, const Wish& wish);

// What a request's conversation is known by here.
struct SessionKey {
  enum class Kind : uint8_t {
    none,      // no conversation
    guess,     // its first turn: others may have begun with the same words
    hint,      // X-Fulmar-Session: for speed alone
    session,   // a session that a worker keeps
    response,  // a stored response
  };
  Kind kind = Kind::none;
  std::string text;  // empty: none
  std::string id;    // of the session or the response

  // Returns whether its worker keeps state that no other worker has.
  bool is_kept() const { return kind == Kind::session || kind == Kind::response; }
};

// Returns the name in the request (net/conversation.h; nodes of a tree of sessions belong to the tree), else
// the header X-Fulmar-Session, each of at most 512 bytes (workers refuse longer ones), else a hash of the
// conversation's first turn, which clients that resend their history repeat each time: the messages up to the
// first of the user, or a lone prompt's first paragraph. The text begins with the kind and, where the request
// shows a key or an owner, a hash of these, since two owners may name their sessions alike.
SessionKey session_key(std::string_view path, const Headers& headers, const JsonValue& body);
// Returns the key of another session than the request's own, such as the copy that a fork makes.
SessionKey key_of_session(const std::string& id, const Headers& headers, const JsonValue& body);
SessionKey key_of_response(const std::string& id, const Headers& headers, const JsonValue& body);

// Returns whether a worker that may come back with its sessions is away.
bool any_away(const Fleet& fleet, bool draining_too);
// Returns whether a worker that does not answer may come back with a session of that model that no other has.
// Ignores the model where it is empty or nobody serves it, and counts a worker whose models are not known
// yet. Sessions in a shared store are never one worker's alone.
bool may_come_back(const Fleet& fleet, std::string_view model);

}  // namespace fulmar
