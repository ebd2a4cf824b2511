// Answers of the native family: batches of raw prompts (docs/http.md, "Batches"). NativeShape holds what
// differs between routes.
#pragma once

#include <string_view>

#include "server/core/shape.h"
#include "server/generate/writer_parts.h"

namespace fulmar {

// Differences between the native routes.
struct NativeShape {
  std::string_view id;      // of whole answers; events carry the request's own id
  std::string_view object;  // likewise
};

inline constexpr NativeShape kBatchShape{"rwkv7-batch", "chat.completion"};

inline constexpr JsonShape kNativeAnswer{
    "native",
    R"({"id":"string","object":"string","created":"integer","model":"string","choices":[)"
    R"({"index":"integer","message":{"role":"=assistant","content":"string"},)"
    R"("finish_reason":"=stop|=length|=cancelled|=paused|=server_stopping","stop_reason?":"string|integer"}],)"
    R"("usage":"@usage","dialogue_idx?":"integer","warnings?":["string"]})",
    &kUsage};
inline constexpr JsonShape kNativeEvent{
    "native.chunk",
    R"({"id":"string","object":"=chat.completion.chunk","created":"integer","model":"string",)"
    R"("choices":[{"index":"integer","delta":{"content":"string"},)"
    R"("finish_reason?":"=stop|=length|=cancelled|=paused|=server_stopping","stop_reason?":"string|integer"}],)"
    R"("usage?":"@usage","warnings?":["string"]})",
    &kUsage};

class NativeWriter : public Writer {
 public:
  // Makes a writer. `head`: its id is the request's, its object is ignored.
  NativeWriter(AnswerHead head, NativeShape shape, bool include_usage);

  Family family() const override { return Family::native; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  // Writes further members of a whole answer.
  virtual void write_extra(JsonWriter&) const {}

  AnswerHead head_;
  const NativeShape shape_;
  const bool include_usage_;
};

}  // namespace fulmar
