// Exit codes of the program that another program acts on.
#pragma once

namespace fulmar {

// The device of a server failed while it ran, or its engine ran out of memory: requests in progress are lost,
// and a new process may work again.
inline constexpr int kDeviceErrorExit = 5;
// A file that the model is read from was shortened or can no longer be read; the same code as where a file
// cannot be opened.
inline constexpr int kFileLostExit = 3;

}  // namespace fulmar
