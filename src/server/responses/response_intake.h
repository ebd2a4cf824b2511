// Translates a request to /v1/responses for the engine. Knows no route and sends no answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/core/fields.h"
#include "server/generate/constraint_fields.h"
#include "server/generate/intake.h"
#include "server/responses/responses_writer.h"

namespace fulmar {

// What a response takes from its call besides the body.
struct ResponseOrigin {
  Owner owner;
  std::string id;                           // that it gets
  int64_t created = 0;                      // unix seconds
  std::string state;                        // the header X-RWKV-State-Id; empty: none
  std::optional<ApiError> other_site;       // see Call::other_site_fault
  std::optional<AdapterWish> adapter = {};  // in place of the request's fields; nothing: those count
};

// Of the items of `input`. Earlier thinking is not fed again.
inline constexpr std::string_view kItemMembers =
    R"([{"?":{"reasoning":"any","item_reference":{"":"type id"},)"
    R"("function_call":{"":"type id call_id name arguments status"},)"
    R"("custom_tool_call":{"":"type id call_id name input status"},)"
    R"("function_call_output":{"":"type id call_id status","output":[{"":"type text"}]},)"
    R"("custom_tool_call_output":{"":"type id call_id status","output":[{"":"type text"}]},)"
    R"("*":{"":"type id role status phase","content":[{"":"type text annotations logprobs"}]}}}])";

inline constexpr FieldTable kResponseFields{
    "response",
    {{"input", Takes::any(kItemMembers), "text, or items: messages, calls and their outputs"},
     {"instructions", Takes::text(), "system text"},
     {"previous_response_id", Takes::text(), "stored response that is gone on from"},
     {"max_output_tokens", Takes::integer(0), "most tokens of the answer"},
     {"text", Takes::object(kTextMembers), "format: text, json_object or json_schema"},
     {"store", Takes::boolean(), "keeps the response", "true"},
     {"background", Takes::boolean(), "answers at once; ask for the response again", "false"},
     {"reasoning", Takes::object(R"({"":"effort summary"})"),
      "effort: none to xhigh; summary: thinking as a summary"},
     {"include", Takes::texts(), "reasoning.encrypted_content: there is none"}}};

// A request to /v1/responses, ready for the engine.
struct PreparedResponse {
  ResponseFacts facts;
  Submission submission;
};

// Faults stay in `fields`.
PreparedResponse prepare_response(Service& service, Fields& fields, const ResponseOrigin& origin);

// Makes an id of 16 random hexadecimal digits and 8 of a hash of them and the owner's name, so that every
// server that shares the store can tell whose the response is.
std::string new_response_id(const Owner& owner);
// Tells whether the owner may know of the response with that id; otherwise it must look unknown. Ids without
// an owner belong to administrators.
bool sees_response(const Owner& owner, std::string_view id);

// Makes a 404 for an id under which nothing is stored.
ApiError not_stored(const std::string& id, std::string_view param = {});

}  // namespace fulmar
