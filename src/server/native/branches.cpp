// A turn on a node: reads one session, writes the next.
#include "server/native/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "server/native/branch_indices.h"
#include "server/native/native_batch.h"

namespace fulmar {
namespace {

Result<int64_t> highest_branch(const ServedModel& model, const Owner& owner, const std::string& tree) {
  int64_t highest = 0;
  FULMAR_ASSIGN(const auto sessions, model.engine->sessions(owner));
  for (const SessionInfo& session : sessions) {
    if (session.owner != owner.name) continue;  // an administrator's list has more
    highest = std::max(highest, branch_index(session.id, tree));
  }
  return highest;
}

}  // namespace

void branch_chat(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  auto session = read_session(*call, fields);
  if (!session) fields.fail(bad_value("Missing session_id parameter"));
  const auto from = fields.integer(kBranchFields["dialogue_idx"]);
  if (!from) fields.fail(bad_value("Missing dialogue_idx parameter"));
  const auto contents = fields.texts(kContentsFields["contents"]);
  if (contents.size() != 1) fields.fail(bad_value("Request must contain exactly one prompt"));
  const ServedModelPtr model = pick_model(*call, fields);
  if (fields.failed()) return call->fail(fields.fault());

  const std::string tree = session->id;
  const auto taken = call->service().families.branches->take(
      call->owner(), tree, [&] { return highest_branch(*model, call->owner(), tree); });
  if (!taken.ok()) return call->fail(store_failed("sessions"));
  const auto& lease = *taken;
  if (!lease) {
    return call->fail({409,
                       fmt::format("the session '{}' has a branch {}; wanted less, for one more to follow",
                                   tree, kLastBranch),
                       "session_id",
                       "conflict",
                       {}});
  }
  session->id = branch_session(tree, *from);
  session->write_to = branch_session(tree, lease->index());
  session->must_exist = *from != 0;  // the root of a tree is the zero state
  const NativeRoute route{.defaults = kNativeDefaults,
                          .shape = {"rwkv7-multi-state", "chat.completion"},
                          .endpoint = "multi_state.chat.completions",
                          .session = std::move(session),
                          .branch = BranchTurn{*from, lease}};
  submit_native(std::move(call), fields, route, contents);
}

}  // namespace fulmar
