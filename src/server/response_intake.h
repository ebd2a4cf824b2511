// From a request to /v1/responses to what the engine is asked. Knows no route and answers nobody.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/fields.h"
#include "server/intake.h"
#include "server/responses_writer.h"

namespace fulmar {

// Where a response comes from besides its body.
struct ResponseOrigin {
  std::string id;       // that it gets
  int64_t created = 0;  // unix seconds
  std::string state;    // the header X-RWKV-State-Id; empty: none
};

// A response as it was asked for, ready to be handed over.
struct PreparedResponse {
  ResponseFacts facts;
  Submission submission;
};

// Faults stay in `fields`.
PreparedResponse prepare_response(Service& service, Fields& fields, const ResponseOrigin& origin);

// 404 for an id under which nothing is stored.
ApiError not_stored(const std::string& id, std::string_view param = {});

}  // namespace fulmar
