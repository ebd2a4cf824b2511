// Batches of texts to translate (docs/http.md, "Batches").
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kTranslateFields{
    "translation",
    {{"source_lang", Takes::text(), "code or name; auto", R"("auto")"},
     {"target_lang", Takes::text(), "code or name"},
     {"text_list", Takes::texts(), "texts to translate"}}};

inline constexpr JsonShape kTranslations{
    "translations",
    R"({"translations":[{"detected_source_lang":"string","text":"string"}],"warnings?":["string"]})"};
void translate_batch(std::shared_ptr<Call> call);  // /translate/v1/batch-translate

}  // namespace fulmar
