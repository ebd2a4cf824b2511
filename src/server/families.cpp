// Makes the stores and caches of the families.
#include "server/families.h"

#include <utility>

#include "server/generate/answer_rules.h"
#include "server/generate/kept_fields.h"
#include "server/generate/query_names.h"
#include "server/native/branch_indices.h"
#include "server/responses/background_jobs.h"
#include "server/routes.h"

namespace fulmar {
namespace {

void when_stored(Service& service, const std::string& id, std::function<void()> then) {
  service.families.responses->store.when_tried(id, [then = std::move(then)](bool) { then(); });
}

UnkeptFields unkept(const Route& route, const HttpRequest& request, const JsonValue& body) {
  static const KeptFields kept(routes());
  UnkeptFields found = kept.check(route.path, body);
  check_query(route, request.query, found);
  return found;
}

std::string response_trouble(const Service& service) { return service.families.responses->store.trouble(); }

}  // namespace

Families make_families(ModelRegistry& models, const AdapterLimits& adapters,
                       std::shared_ptr<ResponseFamily> responses) {
  return {.constraints = std::make_shared<AnswerConstraints>(),
          .adapters = std::make_shared<AdapterRegistry>(models, adapters),
          .responses = std::move(responses),
          .branches = std::make_shared<BranchIndices>(),
          .unkept = unkept,
          .call_ended = look_for_waiting_responses,
          .when_stored = when_stored,
          .resumed = resumed_listener,
          .response_trouble = response_trouble};
}

}  // namespace fulmar
