// The control plane's table of a worker's routes against the worker's own.
#include "control/worker_routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "control/control_routes.h"
#include "server/routes.h"
#include "support/document_section.h"

namespace fulmar::testing {
namespace {

TEST(WorkerRoutes, EachRouteOfAWorkerHasOnePlacement) {
  for (const Route& route : routes()) {
    const auto lines = std::count_if(
        worker_routes().begin(), worker_routes().end(),
        [&](const WorkerRoute& line) { return line.method == route.method && line.path == route.path; });
    EXPECT_EQ(lines + answers_itself(route.method, route.path), 1) << route.method << " " << route.path;
    if (lines == 0) continue;
    const WorkerRoute* found = find_worker_route(route.method, route.path);
    EXPECT_EQ(found->path, route.path) << "another line comes first";
  }
}

TEST(WorkerRoutes, EachPlacedRouteIsAWorkers) {
  for (const WorkerRoute& line : worker_routes()) {
    const bool known = std::any_of(routes().begin(), routes().end(), [&](const Route& route) {
      return line.method == route.method && line.path == route.path;
    });
    EXPECT_TRUE(known) << line.method << " " << line.path;
  }
}

std::string lines_of(Placement placement) {
  std::string text;
  for (const WorkerRoute& line : worker_routes()) {
    if (line.placement != placement) continue;
    text +=
        (text.empty() ? "`" : ", `") + std::string(line.method) + " " + path_with(line.path, "{id}") + "`";
  }
  return text;
}

TEST(WorkerRoutes, TheDocumentsListThem) {
  expect_section("operations.md", "worker routes",
                 "- **Looked for**, on one worker after the other: " + lines_of(Placement::lookup) +
                     ".\n- **Merged** over all workers: " + lines_of(Placement::merged) +
                     ".\n- **Refused** (404 `not_passed_on`), since they are one worker's business: " +
                     lines_of(Placement::apart) + ".\n");
}

}  // namespace
}  // namespace fulmar::testing
