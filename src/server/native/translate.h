// Batches of texts to translate (docs/http.md, "Batches").
#pragma once

#include <memory>

namespace fulmar {

class Call;

void translate_batch(std::shared_ptr<Call> call);  // /translate/v1/batch-translate

}  // namespace fulmar
