// Converts responses and jobs to documents and back. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/document_store.h"
#include "server/responses/response_store.h"

namespace fulmar {

// Tells whether a document is a job: jobs lie beside the responses, under ids with a prefix of their own.
bool is_job(std::string_view id);
std::string job_document_id(const std::string& response_id);

Document document_of(const StoredResponse& response);
Document document_of(const ResponseJob& job);
// Reads a document that document_of() has written; an Error of kind corrupt for any other text.
Result<StoredResponse> response_of(Document document);
// Reads a job; an Error of kind corrupt for any other text, of which nothing could be started again.
Result<ResponseJob> job_of(const Document& document);

// Returns the bytes of an answer in its document, except those that JSON adds.
int64_t bytes_of(const StoredResponse& response);

// Returns what a document says without its text.
StoredResponse response_facts(Document document);
ResponseJob job_facts(Document document);

}  // namespace fulmar
