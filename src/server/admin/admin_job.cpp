// Queues jobs of administration and reads the fields that they share.
#include "server/admin/admin_job.h"

namespace fulmar {

void run_admin_job(const std::shared_ptr<Call>& call, std::function<void(ModelAdmin&)> job) {
  ModelAdmin* admin = call->service().admin;
  if (!admin) return call->fail({501, "This server does not load models", {}, "unsupported", {}});
  if (!admin->post([call, admin, job = std::move(job)] { call->guard([&] { job(*admin); }); })) {
    call->fail({503, "Too many loads are waiting", {}, "queue_full", {}});
  }
}

ApiError state_fault(const Error& error, bool no_model) {
  ApiError fault = api_error(error);
  if (fault.status < 500 || no_model) fault.text = std::string(kBadStateFile);
  return fault;
}

std::string required_text(Fields& fields, TypedField<Takes::Type::text> one) {
  std::string text = fields.text(one).value_or(std::string());
  const std::string name(one.field.name);
  if (text.empty()) fields.fail(bad_value("'" + name + "' is required", name));
  return text;
}

SamplingDefaults read_sampling_defaults(Fields& fields) {
  return {fields.number(kDefaultsFields["default_temperature"]),
          fields.number(kDefaultsFields["default_top_p"])};
}

}  // namespace fulmar
