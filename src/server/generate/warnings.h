// Telling clients what of their request was not kept though it is answered: the header Fulmar-Warning and the
// member `warnings`.
#pragma once

#include <string>
#include <vector>

#include "net/http_message.h"

namespace fulmar {

// Adds a header for each text; what a header cannot hold becomes '?', and long texts are cut.
void add_warning_headers(Headers& headers, const std::vector<std::string>& warnings);
// Adds the member `warnings`, a list of the texts, to an object of JSON. Nothing changes without a warning,
// and where `json` is no object.
void add_warnings(std::string& json, const std::vector<std::string>& warnings);

}  // namespace fulmar
