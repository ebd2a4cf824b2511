// Helpers that all routes for loading and removing share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/core/call.h"
#include "server/core/fields.h"
#include "server/core/shape.h"

namespace fulmar {

inline constexpr JsonShape kAdminDone{
    "admin.done", R"({"status":"=success","model_strategy?":"string","weights?":"string"})"};
inline constexpr std::string_view kAdminSuccess = R"({"status":"success"})";
// Returns the answer to a tuned state that was not loaded: 404 or 400 where the file is at fault, with the
// fixed text; else by the kind and the text of the error. `no_model`: none is loaded.
ApiError state_fault(const Error& error, bool no_model);

inline constexpr std::string_view kBadStateFile = "State file is incorrect. check filename or tensor size.";

// Runs `job` on the administrator's thread, or answers why not.
void run_admin_job(const std::shared_ptr<Call>& call, std::function<void(ModelAdmin&)> job);

// Reads a text that must not be empty. Faults stay in `fields`.
std::string required_text(Fields& fields, TypedField<Takes::Type::text> one);

inline constexpr FieldTable kDefaultsFields{
    "defaults",
    {{"default_temperature", Takes::number(0, 1000), "where a request says nothing"},
     {"default_top_p", Takes::number(0, 1), "likewise"}}};
// Sampling defaults that come with a model or a state.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
};
SamplingDefaults read_sampling_defaults(Fields& fields);

}  // namespace fulmar
