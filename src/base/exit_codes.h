// Exit codes of the program that another program acts on.
#pragma once

namespace fulmar {

// The device of a server failed while it ran: what it held there is gone, and a new process may be well
// again.
inline constexpr int kDeviceErrorExit = 5;

}  // namespace fulmar
