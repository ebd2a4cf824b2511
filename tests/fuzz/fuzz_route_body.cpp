// Feeds bodies to every route that takes JSON, over a stand-in engine: the first byte chooses the route, the
// rest is its body, in which a text of the form ~NUMBER~ becomes a number from the ends of the ranges. Each
// is answered once, with no 500, and reads within its meter.
#include <chrono>
#include <semaphore>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "net/exchange_state.h"
#include "server/core/call.h"
#include "server/families.h"
#include "server/routes.h"
#include "server/small_model.h"
#include "support/scripted_engine.h"

namespace fulmar {
namespace {

using testing::ScriptedEngine;

const std::vector<const Route*>& json_routes() {
  static const std::vector<const Route*> found = [] {
    std::vector<const Route*> list;
    for (const Route& route : routes()) {
      if (route.method == "POST" && !route.takes_bytes) list.push_back(&route);
    }
    return list;
  }();
  return found;
}

// Numbers at the ends of what their readers take.
constexpr std::string_view kNumbers[] = {
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "-1e308",
    "1e-320",
    "0.1",
    "65535",
};

std::string with_numbers(std::string_view text) {
  std::string body;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool number = text[i] == '~' && i + 1 < text.size();
    if (number) {
      body += kNumbers[static_cast<unsigned char>(text[++i]) % std::size(kNumbers)];
    } else {
      body += text[i];
    }
  }
  return body;
}

// An answer that takes longer hangs.
constexpr std::chrono::seconds kLongestAnswer{20};

// A service whose threads are the caller's.
class Stand {
 public:
  Stand() : engine_([](const Ask&) { return testing::Script{.pieces = {"x"}}; }) {
    models_.add(testing::small_model(engine_, tokenizer_));
    ServerOptions options;
    options.limits.max_request_work = 100'000'000;
    service_.reset(new Service{.models = models_,
                               .options = options,
                               .admin = nullptr,
                               .routes = routes(),
                               .families = make_families(models_)});
    service_->post_job = [](ThreadKind, ClientJob job) {
      const Meter::Scope scope(*job.meter);
      job.run();
      return true;
    };
  }

  void ask(const Route& route, std::string body) {
    HttpRequest request;
    request.method = "POST";
    request.path = path_with(route.path, "x");
    request.body = std::move(body);
    std::binary_semaphore woken{0};
    const auto inbox = std::make_shared<DeliveryInbox>([&woken] { woken.release(); });
    auto state = std::make_shared<ExchangeState>(std::move(request), ClientLease(), inbox, size_t{4} << 20);
    Call::dispatch(std::make_shared<Call>(service_, route, std::make_shared<Exchange>(state), "x"));
    int64_t ends = 0;
    while (ends == 0) {
      expect(woken.try_acquire_for(kLongestAnswer));
      std::vector<Delivery> answers;
      inbox->take(answers);
      for (const Delivery& answer : answers) {
        expect(answer.kind != Delivery::Kind::drop && answer.kind != Delivery::Kind::cut);
        ends += answer.kind == Delivery::Kind::respond || answer.kind == Delivery::Kind::end;
        if (answer.response) expect(answer.response->status != 500);
      }
    }
    inbox->close();
    expect(ends == 1 && engine_.wait_idle());
  }

 private:
  testing::SmallTokenizer tokenizer_;
  ScriptedEngine engine_;
  ModelRegistry models_;
  std::shared_ptr<Service> service_;
};

}  // namespace
}  // namespace fulmar

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static fulmar::Stand stand;
  const auto& routes = fulmar::json_routes();
  stand.ask(*routes[data[0] % routes.size()], fulmar::with_numbers(fulmar::fuzz_text(data + 1, size - 1)));
  return 0;
}
