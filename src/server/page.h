// The chat page inside the program.
#pragma once

#include <memory>

namespace fulmar {

class Call;

void page(std::shared_ptr<Call> call);         // /
void page_script(std::shared_ptr<Call> call);  // /app.js
void page_style(std::shared_ptr<Call> call);   // /style.css

}  // namespace fulmar
