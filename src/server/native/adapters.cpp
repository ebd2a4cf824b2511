#include "server/native/adapters.h"

#include "server/core/call.h"
#include "server/generate/generation.h"

namespace fulmar {

void refuse_adapters(std::shared_ptr<Call> call) { call->fail({501, kNoAdapters, {}, "unsupported", {}}); }

}  // namespace fulmar
