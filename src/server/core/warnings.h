// Warnings for clients whose request is answered though parts of it had no effect or were not stored: the
// header Fulmar-Warning and the member `warnings`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http_message.h"
#include "server/core/options.h"

namespace fulmar {

// Adds a header for each text that has none yet; what a header cannot hold becomes '?', and long texts are
// cut.
void add_warning_headers(Headers& headers, const std::vector<std::string>& warnings);
// Adds the member `warnings`, a list of the texts, to an object of JSON. Nothing changes without a warning,
// and where `json` is no object.
void add_warnings(std::string& json, const std::vector<std::string>& warnings);

// Returns what is to be told of sessions, or of stored responses, that will end with the server though it was
// to keep them in a file; nothing where it keeps them, or was told not to.
std::vector<std::string> warnings_of_sessions(const ServerOptions& options);
// Returns the warnings that concern an answer of the route of that path; none when it uses neither store.
std::vector<std::string> warnings_of_route(const ServerOptions& options, std::string_view path);

}  // namespace fulmar
