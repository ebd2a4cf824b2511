// Mixtures of tuned states: loading one and changing its weights (http-api.md 10.5).
#pragma once

#include <memory>

namespace fulmar {

class Call;

void load_mixture(std::shared_ptr<Call> call);         // /mrss_loadstatemodel
void set_mixture_weights(std::shared_ptr<Call> call);  // /mrss_set_gatingweight

}  // namespace fulmar
