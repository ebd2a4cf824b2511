// Exit codes of the program that another program acts on.
#pragma once

namespace fulmar {

// The device of a server failed while it ran, or its engine did for want of memory: what was under way is
// gone, and a new process may be well again.
inline constexpr int kDeviceErrorExit = 5;
// A file that the model is read from was shortened or cannot be read any more. As for one that cannot be
// opened.
inline constexpr int kFileLostExit = 3;

}  // namespace fulmar
