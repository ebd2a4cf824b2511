// Adapters (LoRA), which this server does not have: clients of rwkv_lightning ask for them at start and get
// an explicit refusal.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void refuse_adapters(std::shared_ptr<Call> call);  // /v1/adapters and what lies below it

}  // namespace fulmar
