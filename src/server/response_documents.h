// Responses and jobs as documents, and back. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/document_store.h"
#include "server/response_store.h"

namespace fulmar {

// Jobs lie beside the responses, under ids that none of those has.
bool is_job(std::string_view id);
std::string job_document_id(const std::string& response_id);

Document document_of(const StoredResponse& response);
Document document_of(const ResponseJob& job);
// Nothing for a text that none of these has written.
std::optional<StoredResponse> response_of(Document document);
std::optional<ResponseJob> job_of(const Document& document);

// Bytes of what is stored of an answer, but for what JSON adds.
int64_t bytes_of(const StoredResponse& response);

// What a document tells without its text.
StoredResponse response_facts(Document document);
ResponseJob job_facts(Document document);

}  // namespace fulmar
