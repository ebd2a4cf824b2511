// /v1/responses and what lies below it: turns that are stored as one state each, so that going on or
// branching from any of them costs nothing; made while the client waits, or in the background.
#pragma once

#include <memory>

namespace fulmar {

class Call;
struct Service;

void create_response(std::shared_ptr<Call> call);
void count_response_tokens(std::shared_ptr<Call> call);  // of a request, without making it
void cancel_response(std::shared_ptr<Call> call);        // {id}/cancel
void list_input_items(std::shared_ptr<Call> call);       // {id}/input_items
void show_response(std::shared_ptr<Call> call);          // {id}
void delete_response(std::shared_ptr<Call> call);

}  // namespace fulmar
