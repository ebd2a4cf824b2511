// /v1/responses and the paths below it. Each stored turn keeps one state, so that continuing or branching
// from it costs nothing. Turns run while the client waits, or in the background.
#pragma once

#include <memory>

#include "server/core/shape.h"

namespace fulmar {

class Call;
struct Service;

inline constexpr JsonShape kResponseDeleted{"response.deleted",
                                            R"({"id":"string","object":"=response","deleted":true})"};
inline constexpr JsonShape kResponseTokens{"response.input_tokens",
                                           R"({"object":"=response.input_tokens","input_tokens":"integer",)"
                                           R"("warnings?":["string"]})"};
inline constexpr JsonShape kInputItems{
    "response.input_items",
    R"({"object":"=list","data":[{"*":"any"}],"first_id":"string|null","last_id":"string|null",)"
    R"("has_more":"boolean"})"};

void create_response(std::shared_ptr<Call> call);
void count_response_tokens(std::shared_ptr<Call> call);  // of a request, without making it
void cancel_response(std::shared_ptr<Call> call);        // {id}/cancel
void list_input_items(std::shared_ptr<Call> call);       // {id}/input_items
void show_response(std::shared_ptr<Call> call);          // {id}
void delete_response(std::shared_ptr<Call> call);

}  // namespace fulmar
