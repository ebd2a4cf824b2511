// Mixtures of tuned states: loading one and changing its weights (docs/http.md, "Administration").
#pragma once

#include <memory>

#include "server/core/field.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kMembersFields{
    "mixture",
    {{"state_filenames", Takes::texts(), "files"},
     {"contain_originalstate", Takes::boolean(), "the zero state as a further member", "false"}}};
inline constexpr FieldTable kWeightsFields{"weights",
                                           {{"state_viewname", Takes::text(), "name of the mixture"},
                                            {"state_gatingweight", Takes::numbers(), "of its members"}}};

void load_mixture(std::shared_ptr<Call> call);         // /mrss_loadstatemodel
void set_mixture_weights(std::shared_ptr<Call> call);  // /mrss_set_gatingweight

}  // namespace fulmar
