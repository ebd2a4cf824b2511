// Loading and removing models and tuned states (docs/http.md, "Administration" and 10).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void load_model_file(std::shared_ptr<Call> call);       // /loadmodel
void remove_models(std::shared_ptr<Call> call);         // /removemodel
void load_state_file(std::shared_ptr<Call> call);       // /loadstatemodel
void remove_states(std::shared_ptr<Call> call);         // /removestatemodel
void load_available_model(std::shared_ptr<Call> call);  // /v1/model/load

}  // namespace fulmar
