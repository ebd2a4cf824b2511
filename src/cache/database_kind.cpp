#include "cache/database_kind.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace fulmar {
namespace {

// The kinds, in the order of the enumeration: every schema of a kind has its table, and no other kind does.
struct KnownKind {
  std::string_view words, table;
};
constexpr KnownKind kKinds[] = {{"a database of sessions", "fulmar_sessions"},
                                {"a database of responses", "fulmar_documents"}};

std::string text_of(std::string_view found, const std::filesystem::path& path, DatabaseKind wanted) {
  return fmt::format("'{}' is {}; wanted {}, or a new file", path.string(), found,
                     kKinds[static_cast<size_t>(wanted)].words);
}

}  // namespace

Status check_kind(const Database& database, const std::filesystem::path& path, DatabaseKind wanted) {
  const std::string_view own = kKinds[static_cast<size_t>(wanted)].table;
  Statement tables(database, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  bool has_own = false;
  std::string strange;  // a table of which no kind tells
  FULMAR_ASSIGN(bool more, tables.next());
  while (more) {
    const std::string name = tables.column_text(0);
    has_own |= name == own;
    for (const KnownKind& kind : kKinds) {
      if (name == kind.table && name != own) {
        return Error{ErrorKind::unsupported, text_of(kind.words, path, wanted)};
      }
    }
    if (strange.empty() && !name.starts_with("sqlite_")) strange = name;
    FULMAR_ASSIGN(more, tables.next());
  }
  if (has_own || strange.empty()) return {};
  return Error{ErrorKind::unsupported,
               text_of(fmt::format("another program's database, with a table '{}'", strange), path, wanted)};
}

}  // namespace fulmar
