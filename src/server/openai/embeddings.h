// Vectors for texts: the mean over all tokens of the hidden state after the last norm, scaled to length 1.
// Good for rough similarity of texts; the models are not trained for retrieval.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void embed_texts(std::shared_ptr<Call> call);  // POST /v1/embeddings
// As Ollama has them: several texts, or one text and one vector.
void embed_for_ollama(std::shared_ptr<Call> call);      // POST /api/embed
void embed_one_for_ollama(std::shared_ptr<Call> call);  // POST /api/embeddings
                                                        // /v1/embeddings

}  // namespace fulmar
