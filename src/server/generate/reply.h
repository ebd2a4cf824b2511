// Turns the engine's events into one HTTP answer, whole or streamed, in any family's shape. Decides how many
// tokens an event has (chunk_size), splits off reasoning, counts usage and picks the moment at which a stream
// begins.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/core/call.h"
#include "server/generate/writer.h"
#include "text/reasoning_split.h"

namespace fulmar {

struct ReplyOptions {
  std::string request_id;
  bool stream = false;
  int64_t chunk_size = 1;  // tokens of a row between two of its events
  int32_t rows = 1;
  int32_t rows_per_prompt = 1;             // rows that share a prompt lie side by side; it is counted once
  bool padded = false;                     // prompts begin with a token that usage does not count
  bool refuse_if_never_run = false;        // a request cancelled while it waited is a 409
  std::optional<ReasoningMode> split;      // nothing: text goes out as it is
  std::vector<std::string> warnings = {};  // what was not kept of what the request asked for
};

// Called on the engine thread; answers through the call's exchange, which takes bytes without waiting.
// The answer begins with the first admitted row: what fails before is a plain HTTP error (docs/http.md,
// "Streams").
class Reply : public Listener {
 public:
  // Keeps the model for as long as it lives.
  Reply(std::shared_ptr<Call> call, ReplyOptions options, std::unique_ptr<Writer> writer,
        ServedModelPtr model);

  // Cancels the request when the client goes. To be called after a successful submit.
  void watch_client() const;

  void deliver(std::vector<Event> events) override;

 private:
  struct Row {
    Choice choice;  // whole answers gather here; streams use its ending and usage only
    Piece pending;  // streamed: not yet sent
    std::optional<ReasoningSplitter> splitter;
    int64_t reasoning_tokens = 0;
    int64_t tokens_since_flush = 0;
    bool opened = false;
    bool finished = false;
    std::optional<std::chrono::steady_clock::time_point> last_token;
  };

  void take_all(std::vector<Event> events);
  void take(Event event);
  void take_text(Row& row, Event& event);
  void take_end(Row& row, Event& event);
  void measure(Row& row, const Event& event);
  void add_headers(Headers& headers) const;
  void begin_stream();
  void open(Row& row, int32_t index);
  void flush(Row& row);
  void tell_warnings(std::string& json) const;
  void send_events();
  void send_last(std::function<void(Call&)> send);
  void finish();
  void fail(const Error& error);
  void fail(const ApiError& fault, bool rows_go_on);
  bool never_run() const;
  std::optional<ApiError> refusal() const;
  Totals totals() const;
  Outcome outcome() const;

  const std::shared_ptr<Call> call_;
  const ReplyOptions options_;
  const std::unique_ptr<Writer> writer_;
  const ServedModelPtr model_;
  std::vector<Row> rows_;
  int64_t unfinished_;
  std::vector<std::string> events_;  // formatted, not yet written
  bool admitted_ = false;
  bool streaming_ = false;  // the head of the stream is out
  bool closed_ = false;
};

}  // namespace fulmar
