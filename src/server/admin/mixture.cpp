// Reads the files and weights of a mixture of tuned states.
#include "server/admin/mixture.h"

#include <fmt/format.h>

#include "base/log.h"
#include "server/admin/admin_job.h"

namespace fulmar {
namespace {

// Reads the weights; equal ones when absent.
std::vector<double> read_weights(Fields& fields, size_t members) {
  const auto given = fields.numbers(kWeightsFields["state_gatingweight"]);
  if (!given) return std::vector<double>(members, 1.0);
  const auto complete = weighted(std::vector<MixtureMember>(members), *given);
  if (!complete) {
    fields.fail(bad_value(complete.error().text, "state_gatingweight"));
    return {};
  }
  std::vector<double> weights;
  for (const MixtureMember& member : *complete) weights.push_back(member.weight);
  return weights;
}

}  // namespace

void load_mixture(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  MixtureLoad load;
  load.name = required_text(fields, kWeightsFields["state_viewname"]);
  load.paths = fields.texts(kMembersFields["state_filenames"]);
  load.with_zero_state = fields.flag(kMembersFields["contain_originalstate"]);
  if (load.paths.empty()) fields.fail(bad_value("'state_filenames' is required", "state_filenames"));
  load.weights = read_weights(fields, load.paths.size() + (load.with_zero_state ? 1 : 0));
  const SamplingDefaults defaults = read_sampling_defaults(fields);
  load.default_temperature = defaults.temperature;
  load.default_top_p = defaults.top_p;
  if (fields.failed()) return call->fail(fields.fault());
  const auto most = static_cast<size_t>(call->service().options.limits.max_mixture_files);
  if (load.paths.size() > most) {
    return call->fail(
        bad_value(fmt::format("'state_filenames' holds {} files; at most {} are allowed (--mrssmax)",
                              load.paths.size(), most),
                  "state_filenames"));
  }
  run_admin_job(call, [call, load](ModelAdmin& admin) {
    if (const Status loaded = admin.load_mixture(load); !loaded) {
      spdlog::warn("mixture '{}' not loaded: {}", load.name, loaded.error().text);
      return call->fail(state_fault(loaded.error(), call->service().models.empty()));
    }
    call->respond_json(std::string(kAdminSuccess));
  });
}

void set_mixture_weights(std::shared_ptr<Call> call) {
  Fields fields(call->body());
  const std::string name = required_text(fields, kWeightsFields["state_viewname"]);
  const auto weights = fields.numbers(kWeightsFields["state_gatingweight"]);
  if (!fields.failed() && !weights) {
    fields.fail(bad_value("'state_gatingweight' is required", "state_gatingweight"));
  }
  const SamplingDefaults defaults = read_sampling_defaults(fields);
  if (fields.failed()) return call->fail(fields.fault());
  // Behind the loads that came before it.
  run_admin_job(call, [call, name, weights = *weights, defaults](ModelAdmin&) {
    Status changed = Error{ErrorKind::not_found, "no state of this name"};
    call->service().models.change_state(call->owner(), name, [&](TunedState& state) {
      if (state.mixture.empty()) return;
      auto mixture = weighted(state.mixture, weights);
      changed = mixture ? Status() : Status(mixture.error());
      if (!mixture) return;
      state.mixture = std::move(*mixture);
      if (defaults.temperature) state.default_temperature = defaults.temperature;
      if (defaults.top_p) state.default_top_p = defaults.top_p;
    });
    if (changed) return call->respond_json(std::string(kAdminSuccess));
    if (changed.error().kind == ErrorKind::not_found) {
      return call->fail({404, "The mixture '" + name + "' is not loaded", {}, "not_found", {}});
    }
    call->fail(bad_value(changed.error().text, "state_gatingweight"));
  });
}

}  // namespace fulmar
