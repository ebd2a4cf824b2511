// rwkv_lightning's routes of adapters: register by path or upload, list, forget (docs/adapters.md).
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kNewAdapterFields{
    "new_adapter",
    {{"adapter_id", Takes::text(), "1 to 128 letters, digits, '.', '_' and '-'"},
     {"path", Takes::text(), "file or folder below --adapter-root"},
     {"alpha", Takes::number(), "of files that do not say it: their scale is alpha / rank"},
     {"scale", Takes::number(), "that scale itself, instead"},
     {"base_model_name", Takes::text(), "model that it is for; absent: the first that it fits"}}};
inline constexpr FieldTable kForgetAdapterFields{
    "forget_adapter",
    {{"adapter_id", Takes::text(), "which"},
     {"adapter_version", Takes::text(), "which of its versions; absent: all"}}};

inline constexpr JsonShape kAdapterAdded{"adapter.added", R"({"version":"string","adapter_id":"string"})"};
inline constexpr JsonShape kAdapterForgotten{"adapter.forgotten", R"({"deleted":true})"};
inline constexpr JsonShape kAdapterList{
    "adapter.list",
    R"({"data":[{"id":"string","version":"string","manifest":"any","number":"integer","parent":"string",)"
    R"("form":"string","rank":"integer","scale":"number|null","bytes":"integer","base":"=unverified|=verified",)"
    R"("owner?":"string"}],"ram_hits":"integer","gpu_hits":"integer","gpu_misses":"integer",)"
    R"("uploads":"integer","h2d_ms":"number","ram_bytes":"integer","gpu_bytes":"integer",)"
    R"("gpu_peak_bytes":"integer","warnings?":["string"]})"};

void register_adapter(std::shared_ptr<Call> call);  // POST /v1/adapters
void list_adapters(std::shared_ptr<Call> call);     // GET /v1/adapters
void forget_adapter(std::shared_ptr<Call> call);    // DELETE /v1/adapters

}  // namespace fulmar
