// Serves the embedded files.
#include "server/page.h"

#include <string>

#include "server/call.h"
#include "server/page_files.h"

namespace fulmar {
namespace {

void respond_file(Call& call, std::string_view content_type, std::string_view content) {
  HttpResponse response;
  response.content_type = content_type;
  response.headers.set("Cache-Control", "no-cache");
  response.headers.set("Content-Security-Policy",
                       "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'");
  response.headers.set("X-Content-Type-Options", "nosniff");
  response.body = content;
  call.respond(std::move(response));
}

}  // namespace

void page(std::shared_ptr<Call> call) { respond_file(*call, "text/html; charset=utf-8", kPageHtml); }
void page_script(std::shared_ptr<Call> call) {
  respond_file(*call, "text/javascript; charset=utf-8", kPageScript);
}
void page_style(std::shared_ptr<Call> call) { respond_file(*call, "text/css; charset=utf-8", kPageStyle); }

}  // namespace fulmar
