// One request from arrival to answer: what handlers read, and how they answer.
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
  // Returns the body as an object; empty when the request had none and after the handler has returned.
  const JsonValue& body() const { return body_; }
  const std::string& bytes() const { return bytes_; }  // the body of routes that take bytes
  // Returns what the answer has to tell of fields that this route does not use, and the fault of one with
  // which the handler ends the call where it finds no other.
  const UnkeptFields& unkept() const { return unkept_; }
  const std::string& argument() const { return argument_; }
  std::chrono::steady_clock::time_point arrived() const { return arrived_; }
  bool trusted() const { return caller_.known; }  // has shown a key, or none is asked for
  // Returns the owner of everything that this call names or makes. Ids that clients send are looked up only
  // together with it.
  const Owner& owner() const { return owner_; }
  // Returns the name under which the queues count this call's work and bytes (share_of()).
  const std::string& share() const { return share_; }
  // Returns the meter that counts the steps of reading this call and preparing what it asks for.
  Meter& meter() const { return *meter_; }
  // Returns the keys whose usage the caller may see: its own, or all for an administrator and for a key that
  // lists /metrics in full.
  std::vector<KeyAccountPtr> keys_seen() const;
  // Returns a 403 for a page of another site where no key is asked for: such a page could use its visitors'
  // browsers to reach what is stored here. Nothing otherwise.
  std::optional<ApiError> other_site_fault() const;
  // Tells whether the caller may load a model: its key opens /loadmodel or, where nothing is checked, the
  // request comes from no page of another site.
  bool may_administer() const;

  // Takes rows and prompt tokens from what the caller's key allows, or says why not. The rows are held until
  // give_back_rows(), or as long as the call lives.
  std::optional<ApiError> take_rows(int64_t rows, int64_t prompt_tokens);
  void give_back_rows() { rows_ = RowLease(); }
  void charge_generated(int64_t tokens);
  // Returns the error that ends running work once the caller's key has been removed; nothing before that.
  std::optional<ApiError> revoked() const { return refuse_revoked(caller_.account); }
  // Takes one row as take_rows() does, into a share that outlives the call.
  std::optional<ApiError> share_key(size_t prompt_tokens, KeyShare& share);

  Family family() const { return family_; }
  // Overrides the family of the route: some paths serve two, and the body decides (docs/http.md, "One path
  // for two families").
  void set_family(Family family) { family_ = family; }

  // Runs the call on a thread of the kind that its route needs, or answers 503 when too many calls wait
  // there.
  static void dispatch(std::shared_ptr<Call> call);
  // Takes the body out of the call, for a handler that goes on elsewhere; this thread leaves the call alone
  // then.
  std::shared_ptr<JsonValue> keep_body();
  // Runs `work`, which answers this call, on a thread of that place, with the body in the call again.
  static void resume(std::shared_ptr<Call> call, std::shared_ptr<JsonValue> body, std::function<void()> work,
                     ThreadKind kind = ThreadKind::pool);
  // Runs `work`, which answers this call. An exception becomes an error answer, as does an exhausted meter.
  void guard(const std::function<void()>& work);

  // Returns `later` as a job for another thread, which answers this call in place of the handler that has
  // returned. The call has its body again when the job runs.
  static std::function<void()> postpone(const std::shared_ptr<Call>& call, std::function<void()> later);

  // Counts the outcome by the status, or as told.
  void respond(HttpResponse response);
  void respond(HttpResponse response, Outcome outcome);
  // Adds the member `warnings` to a 200; the answers to GET and Anthropic's have none.
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
  bool takes_bytes() const;
  std::optional<ApiError> refuse_caller() const;

  const std::shared_ptr<Service> service_;
  const Route& route_;
  const std::shared_ptr<Exchange> exchange_;
  const std::string argument_;
  const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
  JsonValue body_{JsonObject{}};
  std::string bytes_;
  UnkeptFields unkept_;
  Family family_;
  Caller caller_;
  Owner owner_{.name = std::string(kNobody)};
  RowLease rows_;
  const std::shared_ptr<Meter> meter_;
  const std::string share_;
  const JobWeight weight_;
  // Kind of the thread that works for the call now, and the meter's steps before that thread began.
  ThreadKind thread_ = ThreadKind::io;
  uint64_t steps_before_ = 0;
  std::atomic<uint32_t> handed_over_{0};  // how often keep_body() gave the call to another thread
};

// Adds the Access-Control headers of an answer to `request`; `preflight` adds those that OPTIONS needs.
void add_cors_headers(Headers& headers, const HttpRequest& request, bool preflight);

}  // namespace fulmar
