// Makes the stores and caches of the families.
#include "server/families.h"

#include <utility>

#include "server/generate/answer_rules.h"
#include "server/generate/kept_fields.h"
#include "server/native/branch_indices.h"
#include "server/responses/background_jobs.h"
#include "server/routes.h"

namespace fulmar {
namespace {

void when_stored(Service& service, const std::string& id, std::function<void()> then) {
  service.families.responses->store.when_tried(id, [then = std::move(then)](bool) { then(); });
}

std::string response_trouble(const Service& service) { return service.families.responses->store.trouble(); }

}  // namespace

Families make_families(std::shared_ptr<ResponseFamily> responses) {
  return {.constraints = std::make_shared<AnswerConstraints>(),
          .responses = std::move(responses),
          .branches = std::make_shared<BranchIndices>(),
          .kept = std::make_shared<const KeptFields>(routes()),
          .call_ended = look_for_waiting_responses,
          .when_stored = when_stored,
          .response_trouble = response_trouble};
}

}  // namespace fulmar
