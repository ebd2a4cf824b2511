// Background responses: accepts them from clients, resumes those of an earlier server, and answers questions
// about them meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "server/core/errors.h"

namespace fulmar {

class Call;
struct PreparedResponse;
struct Service;

// Answers once the job is stored; clients poll for the result.
void answer_in_background(Call& call, PreparedResponse made);

// Finds the responses that a server before this one was told to make in the background and has not: clients
// may ask for them from now on. To be called before there are clients. An error: the store cannot tell.
Status find_background_responses(Service& service);
// Makes them. They keep their ids, and one that fails does so alone. Not to be called on an IO thread.
void take_up_background_responses(const std::shared_ptr<Service>& service);
// Lets a thread of the pool do so, where any waits: to be called when the engine may have room.
void look_for_waiting_responses(const std::shared_ptr<Service>& service);

// Returns the present answer of a response that runs in the background or is stored; nothing for an unknown
// id, an Error when it cannot be read.
Result<std::optional<std::string>> present_answer(Service& service, const std::string& id);
// Returns the items of input of such a response, as input_items_json() writes them; nothing and an Error as
// above.
Result<std::optional<std::string>> present_input(Service& service, const std::string& id);
// Cancels a response that waits. If that fails, returns why, and it continues to wait.
std::optional<ApiError> cancel_waiting(Service& service, const std::string& id);

}  // namespace fulmar
