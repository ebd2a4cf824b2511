// Embeddings: the mean over all tokens of the hidden state after the last norm, scaled to length 1. Good for
// rough similarity of texts; the models are not trained for retrieval.
#pragma once

#include <memory>

#include "server/core/field.h"
#include "server/core/shape.h"
#include "server/generate/writer_parts.h"

namespace fulmar {

class Call;

inline constexpr FieldTable kEmbedFields{"embedding",
                                         {{"input", Takes::any(), "text, token ids, or an array of either"}}};
inline constexpr FieldTable kVectorFields{
    "vector", {{"dimensions", Takes::integer(1, 1 << 20), "the first so many numbers; absent: all"}}};
inline constexpr FieldTable kEncodingFields{
    "encoding", {{"encoding_format", Takes::word("float base64"), "how vectors are written", R"("float")"}}};
inline constexpr FieldTable kEmbedOneFields{"one_text", {{"prompt", Takes::any(), "text"}}};

inline constexpr JsonShape kEmbeddingList{
    "embedding.list",
    R"({"object":"=list","data":[{"object":"=embedding","index":"integer",)"
    R"("embedding":{"|":[["number"],"string"]}}],"model":"string",)"
    R"("usage":{"prompt_tokens":"integer","total_tokens":"integer","adapter?":"@adapter"},)"
    R"("warnings?":["string"]})",
    &kAdapterTold};
inline constexpr JsonShape kOllamaEmbeddings{
    "ollama.embeddings",
    R"({"model":"string","embeddings":[["number"]],"total_duration":"integer",)"
    R"("load_duration":"integer","prompt_eval_count":"integer","adapter?":"@adapter","warnings?":["string"]})",
    &kAdapterTold};
inline constexpr JsonShape kOllamaEmbedding{
    "ollama.embedding", R"({"embedding":["number"],"adapter?":"@adapter","warnings?":["string"]})",
    &kAdapterTold};

void embed_texts(std::shared_ptr<Call> call);  // POST /v1/embeddings
// Answers Ollama's routes: /api/embed takes several texts, /api/embeddings one text and returns one vector.
void embed_for_ollama(std::shared_ptr<Call> call);      // POST /api/embed
void embed_one_for_ollama(std::shared_ptr<Call> call);  // POST /api/embeddings

}  // namespace fulmar
