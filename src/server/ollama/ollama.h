// Ollama's API: chats, completions, embeddings, and what there is of models.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void ollama_chat(std::shared_ptr<Call> call);      // POST /api/chat
void ollama_generate(std::shared_ptr<Call> call);  // POST /api/generate

void ollama_version(std::shared_ptr<Call> call);  // GET /api/version
void ollama_tags(std::shared_ptr<Call> call);     // GET /api/tags
void ollama_running(std::shared_ptr<Call> call);  // GET /api/ps
void ollama_show(std::shared_ptr<Call> call);     // POST /api/show
void ollama_pull(std::shared_ptr<Call> call);     // POST /api/pull

}  // namespace fulmar
