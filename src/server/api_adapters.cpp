#include "server/api_adapters.h"

#include "server/call.h"

namespace fulmar {

void refuse_adapters(std::shared_ptr<Call> call) { call->fail({501, kNoAdapters, {}, "unsupported", {}}); }

}  // namespace fulmar
