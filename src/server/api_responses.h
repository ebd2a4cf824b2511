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

// Finds the responses that a server before this one was told to make in the background and has not: clients
// may ask for them from now on. To be called before there are clients.
void find_background_responses(Service& service);
// Makes them. They keep their ids. Not to be called on an IO thread.
void take_up_background_responses(const std::shared_ptr<Service>& service);

}  // namespace fulmar
