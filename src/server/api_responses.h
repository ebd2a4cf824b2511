// POST /v1/responses, GET and DELETE /v1/responses/{id}: turns that are stored as one state each, so that
// going on or branching from any of them costs nothing.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void create_response(std::shared_ptr<Call> call);
void show_response(std::shared_ptr<Call> call);
void delete_response(std::shared_ptr<Call> call);

}  // namespace fulmar
