// Serves the embedded files.
#include "server/status/page.h"

#include <string>

#include "net/page_files.h"
#include "server/core/call.h"

namespace fulmar {
namespace {

void respond_file(Call& call, std::string_view name) {
  const PageFile* file = find_page_file(name);
  if (!file) return call.fail({404, "Not Found", {}, "not_found", {}});
  call.respond(answer_page_file(call.request(), *file));
}

}  // namespace

void page(std::shared_ptr<Call> call) { respond_file(*call, "chat.html"); }
void page_asset(std::shared_ptr<Call> call) { respond_file(*call, call->argument()); }

}  // namespace fulmar
