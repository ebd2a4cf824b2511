#include "control/session_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

namespace fulmar {
namespace {

namespace fs = std::filesystem;

bool is_plain(unsigned char byte) {
  return std::isalnum(byte) != 0 || byte == '-' || byte == '_' || byte == '.';
}

// What ends the name of the file of responses, beside that of the sessions.
constexpr std::string_view kBeside = ".responses";

std::string escaped(std::string_view text) {
  std::string name;
  const size_t dot = text.ends_with(kBeside) ? text.size() - kBeside.size() : text.size();
  for (size_t i = 0; i < text.size(); ++i) {
    const auto code = static_cast<unsigned char>(text[i]);
    name += is_plain(code) && i != dot ? std::string(1, text[i]) : fmt::format("%{:02X}", code);
  }
  return name;
}

std::string stem_of(const WorkerSpec& spec) {
  if (!spec.name.empty()) return spec.name;
  std::string stem = fs::path(spec.model_path).stem().string();
  if (spec.gpu_id) stem += fmt::format("-gpu{}", *spec.gpu_id);
  return stem.empty() ? "worker" : stem;
}

// Returns the suffix of a worker's second and later files; no escaped name contains '+', so it is never
// another worker's file.
std::string numbered(const WorkerSpec& spec, int number) {
  if (number == 1) return {};
  return fmt::format("{}{}", spec.name.empty() ? '-' : '+', number);
}

}  // namespace

std::string session_file_name(const WorkerSpec& spec, int number) {
  return "sessions-" + escaped(stem_of(spec)) + numbered(spec, number) + ".db";
}

std::string former_session_file_name(const WorkerSpec& spec) {
  std::string name = stem_of(spec);
  if (name.ends_with(kBeside)) return session_file_name(spec);  // another's file of responses has that name
  std::replace_if(
      name.begin(), name.end(), [](unsigned char byte) { return !is_plain(byte); }, '_');
  return "sessions-" + name + ".db";
}

bool take_over_sessions(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (from == to || !fs::exists(from, error) || fs::exists(to, error) || error) return false;
  // What lies beside the sessions first: a file of them alone would look like all there is.
  const auto rename_beside = [](fs::path one, fs::path other) {
    for (const char* ending : {"-wal", "-shm", ".lock"}) {
      std::error_code none;
      fs::rename(one.string() + ending, other.string() + ending, none);
    }
    std::error_code none;
    fs::rename(one, other, none);
    return !none;
  };
  rename_beside(fs::path(from).replace_extension(".responses.db"),
                fs::path(to).replace_extension(".responses.db"));
  return rename_beside(from, to);
}

}  // namespace fulmar
