// Mixtures of tuned states: loading one and changing its weights (docs/http.md, "Administration").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void load_mixture(std::shared_ptr<Call> call);         // /mrss_loadstatemodel
void set_mixture_weights(std::shared_ptr<Call> call);  // /mrss_set_gatingweight

}  // namespace fulmar
