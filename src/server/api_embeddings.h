// Vectors for texts: the mean over all tokens of the hidden state after the last norm, scaled to length 1.
// Good for rough similarity of texts; the models are not trained for retrieval.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void embed_texts(std::shared_ptr<Call> call);  // /v1/embeddings

}  // namespace fulmar
