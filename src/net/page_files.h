// The files of web/dist, as they were when the program was built, and answers to requests for them: cached by
// entity tag, compressed where the client accepts gzip, under a Content-Security-Policy that lets a page load
// nothing from elsewhere and run no inline script. Knows no page.
#pragma once

#include <span>
#include <string_view>

#include "net/http_message.h"

namespace fulmar {

struct PageFile {
  std::string_view name;     // "chat.html", "chat.js"
  std::string_view content;  // bytes
  std::string_view gzip;     // the same compressed; empty where that saves nothing
  std::string_view etag;     // in quotation marks, as the header has it
};

// Returns all files, sorted by name.
std::span<const PageFile> page_files();

// Returns the file of that name, or null.
const PageFile* find_page_file(std::string_view name);

// Answers 200 with the file, or 304 if the request's If-None-Match lists its entity tag.
HttpResponse answer_page_file(const HttpRequest& request, const PageFile& file);

}  // namespace fulmar
