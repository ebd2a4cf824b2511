// Answers of llama.cpp's /completion and /infill.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "server/core/shape.h"
#include "server/generate/writer.h"
#include "server/generate/writer_parts.h"

namespace fulmar {

struct LlamaFacts {
  std::string model;
  std::string prompt;
  bool several = false;  // a list of prompts is answered by a list
};

inline constexpr JsonShape kLlamaPart{
    "llama.part",
    R"({"index":"integer","content":"string","tokens":["integer"],"stop":false,"id_slot":"integer"})"};
inline constexpr JsonShape kLlamaLast{
    "llama.last",
    R"({"index":"integer","content":"string","tokens":["integer"],"id_slot":"integer","stop":true,)"
    R"("model":"string","tokens_predicted":"integer","tokens_evaluated":"integer",)"
    R"("tokens_cached":"integer","truncated":"boolean","stop_type":"=limit|=word|=eos|=none",)"
    R"("stopping_word":"string","prompt":"string","timings":{"*":"number"},"adapter?":"@adapter",)"
    R"("warnings?":["string"]})",
    &kAdapterTold};
// An answer to several prompts.
inline constexpr JsonShape kLlamaList{"llama.list", R"(["@llama.last"])", &kLlamaLast};

class LlamaWriter : public Writer {
 public:
  explicit LlamaWriter(LlamaFacts facts) : facts_(std::move(facts)) {}

  Family family() const override { return Family::openai; }
  Framing framing() const override { return Framing::plain; }
  void write_opening(int32_t, std::vector<std::string>&) override {}
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  std::string last_part(int32_t index, const std::string& content, const Ending& ending,
                        const Totals& totals) const;

  const LlamaFacts facts_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::optional<std::chrono::steady_clock::time_point> first_;
  std::vector<Ending> endings_;  // of a stream's choices
};

}  // namespace fulmar
