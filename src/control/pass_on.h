// Passing requests on to workers by the placement of their routes. Knows no route of the control plane's own.
#pragma once

#include <memory>

#include "control/control_routes.h"
#include "control/worker_routes.h"
#include "net/http_server.h"
#include "net/json_value.h"

namespace fulmar {

// Answers the exchange in every case. `body`: parsed; null where it is no JSON. Any thread.
void pass_on(ControlService& service, std::shared_ptr<Exchange> exchange, const JsonValue& body,
             Placement placement);

// Relays the request to one worker under another target, for the proxy.
void pass_to(ControlService& service, std::shared_ptr<Exchange> exchange, WorkerPtr worker,
             std::string target);

}  // namespace fulmar
