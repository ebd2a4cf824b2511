// Loading and removing models and tuned states (docs/http.md, "Administration" and 10).
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kLoadFields{
    "load",
    {{"model_filename", Takes::text(), "file or folder, or the name of an installed model"},
     {"model_viewname", Takes::text(), "name that it is served under", R"("default model")"},
     {"model_strategy", Takes::text(), "how its weights are kept: fp16, int8, nf4, attn_int8_ffn_int4, ..."},
     {"vocab_filename", Takes::text(), "vocabulary"},
     {"endtoken", Takes::text(), "text that ends turns besides the usual ones, with escapes as in Python"},
     {"template", Takes::text(), "of models that are not RWKV: ignored"},
     {"rope_theta", Takes::any(), "likewise"},
     {"adapter_filename", Takes::text(), "adapter below --adapter-root, for all requests that name none"},
     {"adapter_mode", Takes::word("lora bone"), "its kind; bone: Bat or MiSS"},
     {"adapter_scaling", Takes::number(), "scale of lora", "2.0"}}};
inline constexpr FieldTable kLoadStateFields{
    "tuned_state",
    {{"state_filename", Takes::text(), "file"}, {"state_viewname", Takes::text(), "its name"}}};
inline constexpr FieldTable kUnloadFields{"unload", {{"dummy", Takes::any(), "ignored"}}};
inline constexpr FieldTable kLoadedFields{"loaded", {{"model_viewname", Takes::any(), "which; absent: all"}}};
inline constexpr FieldTable kAvailableFields{"available", {{"model", Takes::text(), "its name"}}};

inline constexpr JsonShape kModelLoaded{"model.loaded", R"({"object":"=model","id":"string","loaded":true})"};

void load_model_file(std::shared_ptr<Call> call);       // /loadmodel
void remove_models(std::shared_ptr<Call> call);         // /removemodel
void load_state_file(std::shared_ptr<Call> call);       // /loadstatemodel
void remove_states(std::shared_ptr<Call> call);         // /removestatemodel
void load_available_model(std::shared_ptr<Call> call);  // /v1/model/load

}  // namespace fulmar
