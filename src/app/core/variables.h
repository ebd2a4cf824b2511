// Names of variables of the environment that more than one command reads.
#pragma once

namespace fulmar {

// The variable that replaces --state-store.
inline constexpr const char* kStoreVariable = "FULMAR_STATE_STORE";

}  // namespace fulmar
