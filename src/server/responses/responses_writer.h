// Answers of /v1/responses, whole and as events: a list of items (reasoning, a message, function calls) that
// grows at its end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/json_writer.h"
#include "server/core/call.h"
#include "server/core/shape.h"
#include "server/generate/tool_calls.h"
#include "server/generate/writer.h"
#include "server/generate/writer_parts.h"
#include "server/responses/paused_response.h"
#include "server/responses/response_store.h"

namespace fulmar {

// What the answer repeats of its request.
struct ResponseFacts {
  std::string id;
  std::string owner;  // whose name
  int64_t created = 0;
  std::string model;     // as the client named it
  std::string model_id;  // as the server knows it
  std::string adapter;   // AdapterUse::identity; empty: none
  std::string previous;  // empty: none
  std::string instructions;
  std::string format = "text";
  std::string tools;  // descriptions of functions, separated by commas
  ExpectedCalls calls;
  bool store = true;
  bool background = false;
  bool summary = false;           // thinking is sent as a summary
  std::string input = "[]";       // as items
  std::string tools_sent = "[]";  // these four are repeated as they were sent
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

inline constexpr JsonShape kResponsePart{
    "response.part",
    R"({"type":"=output_text|=reasoning_text|=summary_text","text":"string","annotations?":["any"]})"};
inline constexpr JsonShape kResponseItem{
    "response.item",
    R"({"|":[{"id":"string","type":"=reasoning","summary":["@response.part"],)"
    R"("content?":["@response.part"]},)"
    R"({"id":"string","type":"=message","status":"=in_progress|=completed|=incomplete",)"
    R"("role":"=assistant","content":["@response.part"]},)"
    R"({"id":"string","type":"=function_call","status":"=in_progress|=completed|=incomplete",)"
    R"("call_id":"string","name":"string","arguments":"string"}]})",
    &kResponsePart};
inline constexpr JsonShape kResponseAnswer{
    "response",
    R"({"id":"string","object":"=response","created_at":"integer",)"
    R"("status":"=queued|=in_progress|=completed|=incomplete|=cancelled|=failed","background?":"boolean",)"
    R"("error":{"|":[{"code":"string","message":"string"},null]},)"
    R"("incomplete_details":{"|":[{"reason":"string"},null]},"instructions":"string|null",)"
    R"("max_output_tokens":"integer","model":"string","output":["@response.item"],)"
    R"("parallel_tool_calls":"boolean","previous_response_id":"string|null","store":"boolean",)"
    R"("temperature":"number","text":{"format":{"type":"string"}},"tool_choice":"any","tools":["any"],)"
    R"("reasoning":{"*":"any"},"top_p":"number","truncation":"=disabled","usage":{"|":[)"
    R"({"input_tokens":"integer","input_tokens_details":{"cached_tokens":"integer"},)"
    R"("output_tokens":"integer","output_tokens_details":{"reasoning_tokens":"integer"},)"
    R"("total_tokens":"integer","adapter?":"@adapter"},null]},"metadata":{"*":"string"},"warnings?":["string"]})",
    {&kResponseItem, &kAdapterTold}};
inline constexpr JsonShape kResponseEvent{
    "response.event",
    R"({"|":[{"type":"=response.created|=response.in_progress|=response.completed|=response.incomplete",)"
    R"("sequence_number":"integer","response":"@response","warnings?":["string"]},)"
    R"({"type":"=response.output_item.added|=response.output_item.done","sequence_number":"integer",)"
    R"("output_index":"integer","item":"@response.item"},)"
    R"({"type":"=response.content_part.added|=response.content_part.done|)"
    R"(=response.reasoning_summary_part.added|=response.reasoning_summary_part.done",)"
    R"("sequence_number":"integer","item_id":"string","output_index":"integer",)"
    R"("content_index?":"integer","summary_index?":"integer","part":"@response.part"},)"
    R"({"type":"=response.output_text.delta|=response.reasoning_text.delta|)"
    R"(=response.reasoning_summary_text.delta|=response.function_call_arguments.delta",)"
    R"("sequence_number":"integer","item_id":"string","output_index":"integer",)"
    R"("content_index?":"integer","summary_index?":"integer","delta":"string","logprobs?":["any"]},)"
    R"({"type":"=response.output_text.done|=response.reasoning_text.done|)"
    R"(=response.reasoning_summary_text.done|=response.function_call_arguments.done",)"
    R"("sequence_number":"integer","item_id":"string","output_index":"integer",)"
    R"("content_index?":"integer","summary_index?":"integer","text?":"string","name?":"string",)"
    R"("arguments?":"string","logprobs?":["any"]},)"
    R"({"type":"=error","sequence_number":"integer","code":"string","message":"string","param":null}]})",
    {&kResponseAnswer, &kResponseItem, &kResponsePart}};

class ResponsesWriter : public Writer {
 public:
  // Stores the answer in the service's store when it ends, if the request asks for it; in the background the
  // job does that. `paused`: where it is kept while its request is paused; null: nowhere.
  ResponsesWriter(std::shared_ptr<Service> service, std::shared_ptr<const ResponseFacts> facts,
                  std::shared_ptr<PausedResponse> paused = nullptr);

  Family family() const override { return Family::openai; }
  void write_opening(int32_t index, std::vector<std::string>& events) override;
  void write_piece(const Piece& piece, std::vector<std::string>& events) override;
  void write_closing(const Totals& totals, std::vector<std::string>& events) override;
  std::string write_whole(std::vector<Choice> choices, const Totals& totals) override;
  // Writes the answer before it is made; `status`: "queued", "in_progress" or "cancelled".
  std::string write_pending(std::string_view status) const;
  void keep_paused(const PausedRow& row) override;
  // Returns a copy that goes on from here and stores nothing.
  std::unique_ptr<ResponsesWriter> without_service() const;
  // Notes why the engine has failed, which the answer will say.
  void note_fault(ApiError error) { fault_ = std::move(error); }
  // Makes the stored form of an answer that has ended.
  StoredResponse stored_form(const Totals& totals) const;
  // Writes the last event of a stream whose engine has failed, and stores the answer as far as it has come.
  std::string write_failed_event(const ApiError& error) override;
  // Writes the error of a failed engine; in the background an answer with the status "failed".
  std::string write_failure(const ApiError& error) override;
  // Makes the stored form of an answer, which is whole or says why there is none.
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

  std::shared_ptr<Service> service_;
  std::shared_ptr<PausedResponse> paused_;
  const std::shared_ptr<const ResponseFacts> held_facts_;
  const ResponseFacts& facts_ = *held_facts_;
  std::optional<ToolCallSplitter> splitter_;  // only with functions
  std::vector<Item> items_;                   // the last one may be open
  Ending ending_;
  std::optional<ApiError> fault_;
  int64_t sequence_ = 0;
};

}  // namespace fulmar
