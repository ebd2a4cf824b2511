// Answers of /v1/responses, whole and as events.
#pragma once

#include <memory>

#include "net/json_writer.h"
#include "server/call.h"
#include "server/writer.h"

namespace fulmar {

// What the answer repeats of its request.
struct ResponseFacts {
  std::string id;
  int64_t created = 0;
  std::string model;     // as the client named it
  std::string model_id;  // as the server knows it
  std::string previous;  // empty: none
  std::string instructions;
  std::string format = "text";
  bool store = true;
  int64_t max_tokens = 0;
  double temperature = 0;
  double top_p = 0;
};

class ResponsesWriter : public Writer {
 public:
  // What is to be stored is put into the service's store when the answer is complete.
  ResponsesWriter(std::shared_ptr<Service> service, ResponseFacts facts);

  Family family() const override { return Family::openai; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;

 private:
  void write_item(JsonWriter& json, std::string_view status) const;
  void write_part(JsonWriter& json, const std::string& text) const;
  void write_response(JsonWriter& json, std::string_view status, const Totals* totals) const;
  JsonWriter begin_event(std::string_view type);
  std::string_view status() const;
  std::string finish(const Totals& totals);

  const std::shared_ptr<Service> service_;
  const ResponseFacts facts_;
  const std::string item_id_;
  std::string text_;       // so far
  std::string reasoning_;  // likewise
  Ending ending_;
  int64_t sequence_ = 0;
};

}  // namespace fulmar
