// Counting answers as they come.
#include "control/fleet_question.h"

#include <atomic>
#include <utility>

namespace fulmar {
namespace {

constexpr size_t kMostAnswer = size_t{8} << 20;

struct Question {
  std::shared_ptr<Exchange> exchange;
  std::vector<WorkerAnswer> answers;  // each written by its own call alone
  std::atomic<size_t> open;
  AllAnswered then;
};

ClientCallbacks callbacks_of(const std::shared_ptr<Question>& question, size_t index) {
  WorkerAnswer& answer = question->answers[index];
  return {.on_head =
              [question, &answer](int status, const Headers& headers) {
                answer.status = status;
                answer.headers = end_to_end_headers(headers);
              },
          .on_data =
              [question, &answer](std::string_view bytes) {
                if (answer.body.size() + bytes.size() > kMostAnswer) {
                  answer.status = 0;
                } else {
                  answer.body.append(bytes);
                }
              },
          .on_end =
              [question, &answer](const ClientOutcome& outcome) {
                if (!outcome.ok()) answer.status = 0;
                if (--question->open == 0) question->then(std::move(question->answers));
              }};
}

}  // namespace

void ask_workers(HttpClient& client, std::shared_ptr<Exchange> exchange, const std::string& method,
                 const RelayRequest& request, const std::vector<WorkerPtr>& workers, AllAnswered then) {
  const auto question = std::make_shared<Question>();
  question->exchange = std::move(exchange);
  question->open = workers.size();
  question->then = std::move(then);
  for (const WorkerPtr& worker : workers)
    question->answers.push_back({.worker = worker, .headers = {}, .body = {}});
  for (size_t i = 0; i < workers.size(); ++i) {
    ClientRequest asked = request_to_worker(*workers[i], *question->exchange, request);
    asked.method = method;
    for (const char* field :
         {"Accept-Encoding", "Content-Encoding", "Content-Type", "Range", "If-None-Match", "Expect"}) {
      asked.headers.remove(field);
    }
    client.send(std::move(asked), callbacks_of(question, i));
  }
}

}  // namespace fulmar
