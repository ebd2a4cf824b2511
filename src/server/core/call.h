// One request on its way through the server: what handlers read and how they answer.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/fair_queue.h"
#include "base/meter.h"
#include "net/http_server.h"
#include "net/json_value.h"
#include "server/core/auth.h"
#include "server/core/errors.h"
#include "server/core/job_weight.h"
#include "server/core/key_ring.h"
#include "server/core/metrics.h"
#include "server/core/owner.h"
#include "server/core/route.h"
#include "server/core/service.h"

namespace fulmar {

class Call {
 public:
  Call(std::shared_ptr<Service> service, const Route& route, std::shared_ptr<Exchange> exchange,
       std::string argument);
  ~Call() { service_->metrics.end_holding(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Service& service() const { return *service_; }
  const std::shared_ptr<Service>& shared_service() const { return service_; }
  const Route& route() const { return route_; }
  const HttpRequest& request() const { return exchange_->request(); }
  const std::shared_ptr<Exchange>& exchange() const { return exchange_; }
  // An object; empty where the request had no body, and once the handler has returned.
  const JsonValue& body() const { return body_; }
  const std::string& bytes() const { return bytes_; }  // the body of routes that take bytes
  const std::string& argument() const { return argument_; }
  std::chrono::steady_clock::time_point arrived() const { return arrived_; }
  bool trusted() const { return caller_.known; }  // has shown a key, or none is asked for
  // Whose what this call names or makes is; nothing is looked up by a client's id without it.
  const Owner& owner() const { return owner_; }
  // Under which text work and bytes are shared out: by what the headers have shown.
  const std::string& share() const { return share_; }
  // What reading this call and making asks of it has cost.
  Meter& meter() const { return *meter_; }
  // The keys whose figures the caller may know: its own; all for an administrator, and for a key that lists
  // /metrics in full.
  std::vector<KeyAccountPtr> keys_seen() const;
  // Why this call may not get at what is kept: it is a page of another site, and no key is asked for, so that
  // such a page could have its visitors' browsers do this.
  std::optional<ApiError> other_site_fault() const;
  // Whether the caller could load a model: its key opens /loadmodel; without keys, it is no page of another
  // site.
  bool may_administer() const;

  // Takes rows and prompt tokens from what the caller's key allows, or says why not. The rows are held until
  // give_back_rows(), or as long as the call lives.
  std::optional<ApiError> take_rows(int64_t rows, int64_t prompt_tokens);
  void give_back_rows() { rows_ = RowLease(); }
  void charge_generated(int64_t tokens);
  // Why what is under way is to end: the key that was shown has been removed.
  std::optional<ApiError> revoked() const { return refuse_revoked(caller_.account); }
  // As take_rows, for one row that outlives the call.
  std::optional<ApiError> share_key(size_t prompt_tokens, KeyShare& share);

  Family family() const { return family_; }
  // Some paths serve two families; the body decides (docs/http.md, "One path for two families").
  void set_family(Family family) { family_ = family; }

  // Runs the call on a thread of the place that its work belongs to, or answers that too many wait there.
  static void dispatch(std::shared_ptr<Call> call);
  // Takes the body out of the call, for a handler that goes on elsewhere; this thread leaves the call alone
  // then.
  std::shared_ptr<JsonValue> keep_body();
  // Runs `work`, which answers this call, on a thread of that place, with the body in the call again.
  static void resume(std::shared_ptr<Call> call, std::shared_ptr<JsonValue> body, std::function<void()> work,
                     ThreadKind kind = ThreadKind::pool);
  // Runs `work`, which answers this call; an exception becomes the answer, and so does the end of the meter.
  void guard(const std::function<void()>& work);

  // `later` as a job for another thread, which answers this call in place of its handler; the call has its
  // body again then.
  static std::function<void()> postpone(const std::shared_ptr<Call>& call, std::function<void()> later);

  // Counts the outcome by the status, or as told.
  void respond(HttpResponse response);
  void respond(HttpResponse response, Outcome outcome);
  void respond_json(std::string body, int status = 200);
  void fail(const ApiError& error);

  // Adds the headers that every answer carries (docs/http.md, "Headers").
  void add_common_headers(Headers& headers) const;
  void count(Outcome outcome) const;

 private:
  // Checks the key and reads the body; then runs the route's handler.
  void serve(std::shared_ptr<Call> self);
  // Lets a thread of that kind work for the call, and counts what it did unless it has handed the call over.
  static void post(const std::shared_ptr<Call>& call, ThreadKind kind, std::function<void()> work);
  static void work_on(const std::shared_ptr<Call>& call, ThreadKind kind, const std::function<void()>& work);
  void count_steps();
  Result<JsonValue> read_body();
  std::optional<ApiError> refuse_caller() const;

  const std::shared_ptr<Service> service_;
  const Route& route_;
  const std::shared_ptr<Exchange> exchange_;
  const std::string argument_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  JsonValue body_{JsonObject{}};
  std::string bytes_;
  Family family_;
  Caller caller_;
  Owner owner_{.name = std::string(kNobody)};
  RowLease rows_;
  const std::shared_ptr<Meter> meter_;
  const std::string share_;
  const JobWeight weight_;
  // Of the thread that works for the call: what kind it is, and the steps that were taken before it.
  ThreadKind thread_ = ThreadKind::io;
  uint64_t steps_before_ = 0;
  std::atomic<uint32_t> handed_over_{0};  // how often keep_body() gave the call to another thread
};

// Access-Control headers for an answer to `request`; `preflight` adds those that OPTIONS wants.
void add_cors_headers(Headers& headers, const HttpRequest& request, bool preflight);

}  // namespace fulmar
