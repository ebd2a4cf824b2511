// Contract data of the project, beside the checkout; tests that need it skip where it does not exist.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar::support {

using Json = nlohmann::json;

std::filesystem::path shared_folder();

Json read_golden(const std::string& name);  // null where there are no golden files

// Fails the running test where the text is no base64.
std::vector<std::byte> from_base64(std::string_view text);

}  // namespace fulmar::support
