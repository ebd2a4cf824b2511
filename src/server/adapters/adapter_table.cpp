#include "server/adapters/adapter_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <utility>

#include "cache/session_name.h"

namespace fulmar {
namespace {

// One way in which a request, or the server for it, names an adapter.
struct Named {
  const AdapterEntry* entry = nullptr;  // null: none, on purpose
  double scale = 1;
  std::string_view field;
};
using Found = std::variant<Named, ApiError>;

ApiError refused(std::string text, std::string_view field) {
  return bad_value(std::move(text), std::string(field));
}

std::string shown(const Named& named) {
  if (!named.entry) return fmt::format("none ({})", named.field);
  return fmt::format("'{}' ({})", named.entry->id, named.field);
}

std::string numbers_of(const std::vector<AdapterEntry>& table, const Owner& owner) {
  std::string text;
  for (const AdapterEntry& entry : table) {
    if (entry.versions.empty() || !owner.may_use(entry.owner)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", entry.number);
  }
  return text.empty() ? "none" : text;
}

auto numbered(const std::vector<AdapterEntry>& table, const Owner& owner, int64_t number) {
  return std::find_if(table.begin(), table.end(), [&](const AdapterEntry& entry) {
    return entry.number == number && !entry.versions.empty() && owner.may_use(entry.owner);
  });
}

ApiError no_such_number(const std::vector<AdapterEntry>& table, const Owner& owner, int64_t number) {
  return refused(
      fmt::format("lora: adapter {} does not exist; there are: {}", number, numbers_of(table, owner)),
      "lora");
}

Found of_list(const std::vector<AdapterEntry>& table, const Owner& owner,
              const std::vector<ListedAdapter>& list) {
  Named named{.entry = nullptr, .scale = 1, .field = "lora"};
  std::vector<int64_t> seen;
  for (const ListedAdapter& one : list) {
    if (std::find(seen.begin(), seen.end(), one.number) != seen.end()) {
      return refused(fmt::format("lora: adapter {} is listed twice", one.number), "lora");
    }
    seen.push_back(one.number);
    const auto entry = numbered(table, owner, one.number);
    if (entry == table.end()) return no_such_number(table, owner, one.number);
    if (one.scale == 0) continue;
    if (named.entry) {
      return refused(fmt::format("lora: '{}' and '{}' have scales other than 0; one adapter a request",
                                 named.entry->id, entry->id),
                     "lora");
    }
    named.entry = &*entry;
    named.scale = one.scale;
  }
  return named;
}

// Returns what the global scales say. At most one adapter of a model has one (set_global_scales), so the
// first that fits the model is it.
Named of_globals(const std::vector<AdapterEntry>& table, const Owner& owner, const AdaptedModel& model) {
  for (const AdapterEntry& entry : table) {
    const bool meant = !entry.only_base || entry.base == model.id;
    const bool fits = meant && !entry.versions.empty() && entry.versions.back()->shapes == model.shapes;
    if (entry.global_scale != 0 && fits && owner.may_use(entry.owner)) {
      return {&entry, entry.global_scale, "/lora-adapters"};
    }
  }
  return {nullptr, 1, "/lora-adapters"};
}

// Returns what a request names: by precedence, and as an error where two of its fields disagree.
Found named_by(const std::vector<AdapterEntry>& table, const Owner& owner, const AdapterWish& wish) {
  std::vector<Named> all;
  if (wish.list) {
    Found listed = of_list(table, owner, *wish.list);
    if (std::holds_alternative<ApiError>(listed)) return listed;
    all.push_back(std::get<Named>(listed));
  }
  if (!wish.id.empty()) {
    const AdapterEntry* entry = find_adapter(table, owner, wish.id);
    if (!entry) return refused("unknown adapter id", "adapter_id");
    all.push_back({entry, wish.strength.value_or(1), "adapter_id"});
  }
  if (!wish.by_model_name.empty()) {
    const AdapterEntry* entry = find_adapter(table, owner, wish.by_model_name);
    if (!entry) return refused("unknown adapter id", "model");
    all.push_back({entry, 1, "model"});
  }
  for (const Named& other : all) {
    if (other.entry != all.front().entry) {
      return refused(fmt::format("two adapters named: {} and {}", shown(all.front()), shown(other)),
                     other.field);
    }
  }
  return all.front();
}

const AdapterContentPtr* version_of(const AdapterEntry& entry, const std::string& version) {
  for (const AdapterContentPtr& content : entry.versions) {
    if (version.empty() ? content == entry.versions.back() : content->version == version) return &content;
  }
  return nullptr;
}

std::variant<double, ApiError> strength(const AdapterContent& content, const Named& named,
                                        const AdapterWish& wish) {
  double t = named.scale;
  if (wish.scale && *wish.scale == 0) {
    t = 0;
  } else if (wish.scale) {
    const std::optional<double> own = content.common_scale();
    if (!own || *own == 0) {
      return refused("adapter_scale needs one common scale in the adapter; use lora[].scale",
                     "adapter_scale");
    }
    t = *wish.scale / *own;
  }
  const std::string_view field = wish.scale ? "adapter_scale" : named.field;
  if (!std::isfinite(t) || std::abs(t) > kMostAdapterScale) {
    return refused(fmt::format("{}: {} times what the adapter changes; at most {} times, either way", field,
                               t, kMostAdapterScale),
                   field);
  }
  if (t != 0 && t != 1 && !content.adapter.states.empty()) {
    return refused(
        fmt::format("{}: adapter '{}' holds initial states, which have no other scale than its own", field,
                    named.entry->id),
        field);
  }
  return t;
}

// Returns what tells states under this adapter from others.
std::string identity_of(const AdapterContent& content, double t) {
  const float used = static_cast<float>(t);
  if (used == 0) return {};
  if (used == 1) return content.version;
  return fmt::format("{}@{:08x}", content.version, std::bit_cast<uint32_t>(used));
}

AdapterChosen finished(const Named& named, const AdaptedModel& model, const AdapterWish& wish) {
  if (!named.entry) return AdapterChoice();
  const AdapterEntry& entry = *named.entry;
  const AdapterContentPtr* content = version_of(entry, wish.version);
  if (!content) return refused("unknown adapter version", "adapter_version");
  if (model.shapes.empty()) {
    return refused(fmt::format("the model '{}' takes no adapters", model.id), named.field);
  }
  if ((*content)->shapes != model.shapes) {
    return refused(fmt::format("adapter '{}' is for the model '{}' and does not fit '{}'", entry.id,
                               entry.base, model.id),
                   named.field);
  }
  const auto t = strength(**content, named, wish);
  if (const auto* fault = std::get_if<ApiError>(&t)) return *fault;
  AdapterChoice choice{.id = entry.id, .version = (*content)->version, .scale = std::get<double>(t)};
  choice.identity = identity_of(**content, choice.scale);
  if (choice.identity.empty()) return choice;
  choice.held = *content;
  if (!choice.held->adapter.states.empty()) choice.initial_state = adapter_state_name(choice.version);
  return choice;
}

}  // namespace

std::optional<double> AdapterContent::common_scale() const {
  if (adapter.deltas.empty()) return std::nullopt;
  const double first = adapter.deltas.front().scale;
  for (const Delta& delta : adapter.deltas) {
    if (delta.scale != first) return std::nullopt;
  }
  return first;
}

const AdapterEntry* find_adapter(const std::vector<AdapterEntry>& table, const Owner& owner,
                                 std::string_view id) {
  const AdapterEntry* best = nullptr;
  const auto rank = [&](const AdapterEntry& entry) {
    return entry.owner == owner.name ? 0 : !entry.owner.empty() + 1;
  };
  for (const AdapterEntry& entry : table) {
    if (entry.id != id || entry.versions.empty() || !owner.may_use(entry.owner)) continue;
    if (!best || rank(entry) < rank(*best)) best = &entry;
  }
  return best;
}

AdapterChosen choose_adapter(const std::vector<AdapterEntry>& table, const Owner& owner,
                             const AdaptedModel& model, const AdapterWish& wish) {
  if (wish.id.empty() && (wish.scale || !wish.version.empty())) {
    return refused("adapter_id is required with adapter_version/adapter_scale",
                   wish.scale ? "adapter_scale" : "adapter_version");
  }
  if (wish.list && wish.scale) {
    return refused("adapter_scale has no effect beside lora, which says scales of its own", "adapter_scale");
  }
  if (!wish.list && wish.id.empty() && wish.by_model_name.empty()) {
    return finished(of_globals(table, owner, model), model, wish);
  }
  Found found = named_by(table, owner, wish);
  if (const auto* fault = std::get_if<ApiError>(&found)) return *fault;
  return finished(std::get<Named>(found), model, wish);
}

std::variant<std::vector<double>, ApiError> scaled_globally(const std::vector<AdapterEntry>& table,
                                                            const Owner& owner,
                                                            const std::vector<ListedAdapter>& scales) {
  std::vector<double> wanted(table.size(), 0.0);
  std::vector<bool> said(table.size(), false);
  for (const ListedAdapter& one : scales) {
    const auto entry = numbered(table, owner, one.number);
    if (entry == table.end()) return no_such_number(table, owner, one.number);
    const auto at = static_cast<size_t>(entry - table.begin());
    if (said[at]) return refused(fmt::format("lora: adapter {} is listed twice", one.number), "lora");
    const auto t = strength(*entry->versions.back(), {&*entry, one.scale, "lora"}, {});
    if (const auto* fault = std::get_if<ApiError>(&t)) return *fault;
    said[at] = true;
    wanted[at] = one.scale;
  }
  for (size_t i = 0; i < table.size(); i++) {
    for (size_t j = i + 1; j < table.size() && wanted[i] != 0; j++) {
      const bool one_model = table[i].versions.back()->shapes == table[j].versions.back()->shapes;
      if (wanted[j] == 0 || !one_model) continue;
      return refused(fmt::format("lora: '{}' and '{}' have scales other than 0; one adapter a request",
                                 table[i].id, table[j].id),
                     "lora");
    }
  }
  return wanted;
}

std::string shown_root(const AdapterEntry& entry, bool trusted) {
  return trusted ? entry.root : std::filesystem::path(entry.root).filename().string();
}

std::string adapter_state_name(std::string_view version) {
  return session_text(kNobody, fmt::format("adapter {}", version));
}

}  // namespace fulmar
