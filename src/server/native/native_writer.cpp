// Writes the shapes of native answers.
#include "server/native/native_writer.h"

namespace fulmar {

NativeWriter::NativeWriter(AnswerHead head, NativeShape shape, bool include_usage)
    : head_(std::move(head)), shape_(shape), include_usage_(include_usage) {
  head_.object = "chat.completion.chunk";
}

// Writes nothing: clients read a string `content` from every choice of every event, so none may lack it.
void NativeWriter::write_opening(int32_t, std::vector<std::string>&) {}

void NativeWriter::write_piece(const Piece& piece, std::vector<std::string>& events) {
  JsonWriter json = begin_choice_event(head_);
  json.member("index", piece.index);
  json.key("delta").begin_object().member("content", piece.content).end_object();
  if (piece.ending) write_ending(json, *piece.ending, family());
  events.push_back(end_choice_event(json, false));
}

void NativeWriter::write_closing(const Totals& totals, std::vector<std::string>& events) {
  if (include_usage_) events.push_back(usage_event(head_, totals));
}

std::string NativeWriter::write_whole(std::vector<Choice> choices, const Totals& totals) {
  JsonWriter json;
  write_head(json, {std::string(shape_.id), shape_.object, head_.created, head_.model});
  json.key("choices").begin_array();
  for (size_t i = 0; i < choices.size(); ++i) {
    json.begin_object().member("index", i);
    json.key("message")
        .begin_object()
        .member("role", "assistant")
        .member("content", choices[i].content)
        .end_object();
    write_ending(json, choices[i].ending, family());
    json.end_object();
  }
  json.end_array();
  write_usage(json, totals);
  write_extra(json);
  return json.end_object().take();
}

}  // namespace fulmar
