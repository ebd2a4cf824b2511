// Files with tuned states that clients send, list and delete (docs/http.md, "Administration").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void upload_state_file(std::shared_ptr<Call> call);  // /v1/state/upload
void list_state_files(std::shared_ptr<Call> call);   // /v1/state/list
void delete_state_file(std::shared_ptr<Call> call);  // /v1/state/delete

}  // namespace fulmar
