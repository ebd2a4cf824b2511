// A small vocabulary and what a server knows of a model that has it, for tests and fuzz targets over a
// scripted engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/models/served_model.h"
#include "text/tokenizer.h"

namespace fulmar::testing {

// Bytes are the ids 1 to 256, as in the World vocabulary; besides, the ids that stops are made of.
class SmallTokenizer : public Tokenizer {
 public:
  SmallTokenizer() {
    for (size_t i = 0; i < 256; ++i)
      bytes_[static_cast<int32_t>(i) + 1] = std::string(1, static_cast<char>(i));
    bytes_[261] = "\n\n";
    bytes_[754] = "</";
    bytes_[10060] = "\u273F";
    bytes_[24281] = "User";
  }
  using Tokenizer::encode;
  // Bytes only: prompts are then as long as their text.
  void encode(std::string_view text, std::vector<int32_t>& out) const override {
    for (const char c : text) out.push_back(static_cast<unsigned char>(c) + 1);
  }
  std::string_view bytes(int32_t id) const override {
    const auto found = bytes_.find(id);
    return found == bytes_.end() ? std::string_view() : found->second;
  }
  int32_t vocabulary_size() const override { return 24282; }
  std::string_view name() const override { return "small"; }
  std::optional<int32_t> eos() const override { return 0; }

 private:
  std::map<int32_t, std::string> bytes_;
};

// Both must outlive the model.
inline std::shared_ptr<ServedModel> small_model(Engine& engine, const Tokenizer& tokenizer) {
  auto facts = std::make_shared<ServedModel>();
  facts->id = "tiny-rwkv7";
  facts->path = "/models/tiny-rwkv7.pth";
  facts->created = 1700000000;
  facts->runtime = "f32";
  facts->vocabulary = 65536;
  facts->engine = &engine;
  facts->tokenizer = &tokenizer;
  facts->end_token = 0;
  facts->stops = {.chat_ids = {},
                  .chat_texts = {"\n\nUser:", "\nUser:"},
                  .turn_ids = {261, 24281},
                  .turn_texts = {},
                  .infill_ids = {10060},
                  .infill_texts = {}};
  return facts;
}

}  // namespace fulmar::testing
