// Files with tuned states that clients send, list and delete (docs/http.md, "Administration").
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kStateFileFields{"state_file", {{"state_id", Takes::text(), "which"}}};

inline constexpr JsonShape kStateFile{
    "state_file",
    R"({"object?":"=rwkv.state","owner?":"string","state_id":"string","filename":"string",)"
    R"("original_filename":"string","size_bytes":"integer","tensor_count":"integer","layers":"integer",)"
    R"("heads":"integer","head_size":"integer","created":"integer","created_ms":"integer",)"
    R"("uploaded_at":"string"})"};
inline constexpr JsonShape kStateFiles{"state_file.list", R"({"object":"=list","data":["@state_file"]})",
                                       &kStateFile};
inline constexpr JsonShape kStateFileGone{
    "state_file.gone",
    R"({"object":"=rwkv.state","state_id":"string","deleted":"boolean","error?":"string"})"};

void upload_state_file(std::shared_ptr<Call> call);  // /v1/state/upload
void list_state_files(std::shared_ptr<Call> call);   // /v1/state/list
void delete_state_file(std::shared_ptr<Call> call);  // /v1/state/delete

}  // namespace fulmar
