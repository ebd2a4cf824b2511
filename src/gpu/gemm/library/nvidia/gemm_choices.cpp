#include "gpu/gemm/library/nvidia/gemm_choices.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/read_file.h"
#include "base/write_file.h"

namespace fulmar::gpu {

namespace {

constexpr std::string_view kFormat = "fulmar gemm choices 2";
constexpr size_t kMostChoicesBytes = size_t{4} << 20;
constexpr char kDigits[] = "0123456789abcdef";

std::string hex_of(const GemmAlgorithm& bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15u];
  }
  return text;
}

std::optional<GemmAlgorithm> bytes_of(std::string_view hex) {
  GemmAlgorithm bytes{};
  if (hex.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < bytes.size(); i++) {
    unsigned value = 0;
    const char* first = hex.data() + 2 * i;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc{} || end != first + 2) return std::nullopt;
    bytes[i] = static_cast<std::byte>(value);
  }
  return bytes;
}

}  // namespace

std::vector<int64_t> row_buckets(int64_t most) {
  std::vector<int64_t> ends;
  for (int64_t rows = 1; rows <= most; rows = ends.back() + 1) {
    ends.push_back(std::min(bucket_rows(rows), most));
  }
  return ends;
}

std::string write_gemm_choices(std::string_view identity, const std::map<GemmKey, GemmAlgorithm>& known) {
  std::ostringstream text;
  text << kFormat << '\n' << identity << '\n';
  for (const auto& [key, algorithm] : known) {
    text << key.rows << ' ' << key.in << ' ' << key.out << ' ' << key.in_stride << ' ' << key.out_stride
         << ' ' << key.transposed << ' ' << key.bfloat << ' ' << key.wide << ' ' << key.alignment << ' '
         << key.float8 << ' ' << hex_of(algorithm) << '\n';
  }
  text << "end " << known.size() << '\n';
  return text.str();
}

std::optional<std::map<GemmKey, GemmAlgorithm>> read_gemm_choices(std::string_view text,
                                                                  std::string_view identity) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != kFormat) return std::nullopt;
  if (!std::getline(lines, line) || line != identity) return std::nullopt;
  std::map<GemmKey, GemmAlgorithm> known;
  while (std::getline(lines, line)) {
    if (line == "end " + std::to_string(known.size())) return known;
    std::istringstream words(line);
    GemmKey key;
    std::string hex;
    words >> key.rows >> key.in >> key.out >> key.in_stride >> key.out_stride >> key.transposed >>
        key.bfloat >> key.wide >> key.alignment >> key.float8 >> hex;
    const auto algorithm = bytes_of(hex);
    if (words.fail() || !algorithm) return std::nullopt;
    known[key] = *algorithm;
  }
  return std::nullopt;
}

GemmChoices::GemmChoices(std::filesystem::path file, std::string identity)
    : file_(std::move(file)), identity_(std::move(identity)) {
  if (file_.empty()) return;
  const auto text = read_file(file_, kMostChoicesBytes);
  if (!text.ok()) return;
  if (auto read = read_gemm_choices(*text, identity_)) known_ = std::move(*read);
}

std::optional<GemmAlgorithm> GemmChoices::find(const GemmKey& key) const {
  const auto found = known_.find(key);
  if (found == known_.end()) return std::nullopt;
  return found->second;
}

void GemmChoices::keep(const GemmKey& key, const GemmAlgorithm& algorithm) {
  known_[key] = algorithm;
  if (file_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const std::string text = write_gemm_choices(identity_, known_);
  if (text.size() <= kMostChoicesBytes) {
    const Status written = write_whole_file(file_, text);
    if (written.ok()) return;
    spdlog::warn("{}; products are timed again at the next start", written.error().text);
  }
  file_.clear();
}

}  // namespace fulmar::gpu
