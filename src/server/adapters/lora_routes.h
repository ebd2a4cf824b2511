// The routes by which clients of vLLM and llama.cpp manage adapters (docs/adapters.md).
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kLoadLoraFields{
    "load_lora",
    {{"lora_name", Takes::text(), "its id, by which requests name it as their model"},
     {"lora_path", Takes::text(), "file or folder below --adapter-root"},
     {"base_model_name", Takes::text(), "model that it is for; absent: the first that it fits"},
     {"alpha", Takes::number(), "of files that do not say it: their scale is alpha / rank"},
     {"scale", Takes::number(), "that scale itself, instead"}}};
inline constexpr FieldTable kUnloadLoraFields{
    "unload_lora",
    {{"lora_name", Takes::text(), "which"}, {"lora_int_id", Takes::any(), "ignored, as vLLM does"}}};

inline constexpr JsonShape kLoraError{
    "lora.error", R"({"object":"=error","message":"string","type":"string","param":null,"code":"integer"})"};
inline constexpr JsonShape kLoraScales{"lora.scales",
                                       R"([{"id":"integer","path":"string","scale":"number"}])"};
inline constexpr JsonShape kLoraScaled{"lora.scaled", R"({"success":true})"};

void load_lora_adapter(std::shared_ptr<Call> call);    // POST /v1/load_lora_adapter
void unload_lora_adapter(std::shared_ptr<Call> call);  // POST /v1/unload_lora_adapter
void list_lora_scales(std::shared_ptr<Call> call);     // GET /lora-adapters
void set_lora_scales(std::shared_ptr<Call> call);      // POST /lora-adapters

}  // namespace fulmar
