// Reads one streamed completion as the strictest known client does (docs/http.md, "Load test"): line by
// line; every line except empty ones and `[DONE]` must be JSON with choices[0].text. Knows no socket and no
// clock.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fulmar {

// One request as its client saw it. Times are seconds on the caller's clock.
struct AnswerRecord {
  double sent_at = 0;
  std::vector<double> text_at;  // each event with non-empty text
  double ended_at = 0;          // the last line
  bool done = false;            // `[DONE]` came
  std::string finish_reason;    // the last one that was not null
  std::string fault;            // why this request failed; empty: it did not

  bool succeeded() const { return fault.empty() && done; }
};

class CompletionReader {
 public:
  explicit CompletionReader(double sent_at) { record_.sent_at = sent_at; }

  // Takes the status; any but 200 is a fault.
  void head(int status);
  void feed(std::string_view bytes, double now);
  // Ends the record with the connection; `trouble` says why it ended if it should not have.
  void end(std::string_view trouble, double now);

  const AnswerRecord& record() const { return record_; }

 private:
  void take_line(std::string_view line, double now);
  void fail(std::string text);

  AnswerRecord record_;
  std::string line_;    // not complete yet
  bool error_ = false;  // the body is an error's, not a stream
};

}  // namespace fulmar
