// The chat page, which is embedded in the program.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void page(std::shared_ptr<Call> call);        // /
void page_asset(std::shared_ptr<Call> call);  // /assets/<file>: scripts, styles and fonts of the pages

}  // namespace fulmar
