// Files with tuned states that clients send, list and delete (http-api.md 9.5).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void upload_state_file(std::shared_ptr<Call> call);  // /v1/state/upload
void list_state_files(std::shared_ptr<Call> call);   // /v1/state/list
void delete_state_file(std::shared_ptr<Call> call);  // /v1/state/delete

}  // namespace fulmar
