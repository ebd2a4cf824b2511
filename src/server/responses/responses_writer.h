// Answers of /v1/responses, whole and as events: a list of items (reasoning, a message, calls of functions)
// that grows at its end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer.h"
#include "server/responses/response_store.h"

namespace fulmar {

// What the answer repeats of its request.
struct ResponseFacts {
  std::string id;
  std::string owner;  // whose name
  int64_t created = 0;
  std::string model;     // as the client named it
  std::string model_id;  // as the server knows it
  std::string previous;  // empty: none
  std::string instructions;
  std::string format = "text";
  std::string tools;  // descriptions of functions, separated by commas
  ExpectedCalls calls;
  bool store = true;
  bool background = false;
  bool summary = false;           // thinking is told as a summary
  std::string input = "[]";       // as items
  std::string tools_sent = "[]";  // these four as the request has them
  std::string tool_choice = "\"auto\"";
  std::string reasoning = "{\"effort\":null,\"summary\":null}";
  std::string metadata = "{}";
  int64_t max_tokens = 0;
  float temperature = 0;
  float top_p = 0;
  std::vector<std::string> warnings = {};  // in the background: what is not kept of the request
  PromisedRoomPtr room;                    // for what is to be stored

  // Returns the bytes of what a client has chosen.
  int64_t bytes() const;
};

class ResponsesWriter : public Writer {
 public:
  // What is to be stored is put into the service's store when the answer is complete, unless it is made in
  // the background.
  ResponsesWriter(std::shared_ptr<Service> service, std::shared_ptr<const ResponseFacts> facts);

  Family family() const override { return Family::openai; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;
  // The answer before there is one: "queued", "in_progress" or "cancelled".
  std::string write_pending(std::string_view status) const;
  std::string write_failed_event(const ApiError& error) override;
  // In the background: the answer that says so.
  std::string write_failure(const ApiError& error) override;
  // The whole answer, or what says why there is none, as it is stored.
  StoredResponse as_stored(std::string json) const;

 private:
  struct Item {
    enum class Kind : uint8_t { reasoning, message, call };
    Kind kind;
    std::string id;
    std::string text;  // of a call: its arguments
    ToolCall call;
    bool cut = false;  // a call without its end
    bool closed = false;
  };

  void add_text(Item::Kind kind, const std::string& text, std::vector<std::string>& events);
  void add_calls(const TextAndCalls& parts, std::vector<std::string>& events);
  void open_item(Item item, std::vector<std::string>& events);
  void close_item(std::vector<std::string>& events);
  void write_item(JsonWriter& json, const Item& item, bool whole) const;
  void write_part(JsonWriter& json, const Item& item, const std::string& text) const;
  void write_response(JsonWriter& json, std::string_view status, const Totals* totals) const;
  std::string part_event(const Item& item, std::string_view what) const;
  std::string text_event(const Item& item, std::string_view what) const;
  JsonWriter begin_event(std::string_view type);
  JsonWriter begin_item_event(std::string_view type);
  std::string_view status() const;
  std::string finish(const Totals& totals);

  const std::shared_ptr<Service> service_;
  const std::shared_ptr<const ResponseFacts> held_facts_;
  const ResponseFacts& facts_ = *held_facts_;
  std::optional<ToolCallSplitter> splitter_;  // only with functions
  std::vector<Item> items_;                   // the last one may be open
  Ending ending_;
  std::optional<ApiError> fault_;
  int64_t sequence_ = 0;
};

}  // namespace fulmar
