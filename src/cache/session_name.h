// The name of a session below the routes: its owner and the id that the owner gave it, as one text. Sessions
// of two owners with the same id are different sessions.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

// Separates owner and id. No owner's name holds it.
inline constexpr char kOwnerEnd = '\x1f';

struct SessionName {
  std::string owner;  // "": the server's own
  std::string id;     // as clients know it

  auto operator<=>(const SessionName&) const = default;
};

// Returns the beginning of the names of all sessions of an owner; "" for the server's own.
inline std::string owner_prefix(std::string_view owner) {
  return owner.empty() ? std::string() : std::string(owner) + kOwnerEnd;
}

// Returns the text of a name. The server's own sessions are named by their id alone, as in databases without
// owners, except for ids that another owner's session could have.
inline std::string session_text(std::string_view owner, std::string_view id) {
  const bool plain = owner.empty() && id.find(kOwnerEnd) == std::string_view::npos;
  if (plain) return std::string(id);
  return std::string(owner) + kOwnerEnd + std::string(id);
}

// Parses what session_text() returns.
inline SessionName session_name(std::string_view text) {
  const size_t end = text.find(kOwnerEnd);
  if (end == std::string_view::npos) return {.owner = {}, .id = std::string(text)};
  return {.owner = std::string(text.substr(0, end)), .id = std::string(text.substr(end + 1))};
}

// Returns the id alone, for errors and the log.
inline std::string session_id_of(std::string_view text) { return session_name(text).id; }

}  // namespace fulmar
