// Responses and jobs as documents, and back. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cache/document_store.h"
#include "server/responses/response_store.h"

namespace fulmar {

// Jobs lie beside the responses, under ids that none of those has.
bool is_job(std::string_view id);
std::string job_document_id(const std::string& response_id);

Document document_of(const StoredResponse& response);
Document document_of(const ResponseJob& job);
// An Error for a text that document_of() has not written: it is there, and cannot be read.
Result<StoredResponse> response_of(Document document);
// Nothing for such a text: there is nothing that could be begun again.
Result<ResponseJob> job_of(const Document& document);

// Bytes of what is stored of an answer, but for what JSON adds.
int64_t bytes_of(const StoredResponse& response);

// What a document tells without its text.
StoredResponse response_facts(Document document);
ResponseJob job_facts(Document document);

}  // namespace fulmar
