#include "adapters/adapter_flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "files/bytes.h"

namespace fulmar {
namespace {

constexpr size_t kLongestName = 128;

Error invalid(std::string text) { return {ErrorKind::invalid, std::move(text)}; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// Returns where the last ",word=" begins; npos: nowhere.
size_t last_setting(std::string_view text) {
  for (size_t comma = text.rfind(','); comma != text.npos && comma > 0; comma = text.rfind(',', comma - 1)) {
    const size_t end = text.find('=', comma);
    const std::string_view word = text.substr(comma + 1, end == text.npos ? 0 : end - comma - 1);
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_letter)) return comma;
  }
  return text.npos;
}

Result<double> read_factor(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && std::abs(value) <= kMostAdapterFactor) return value;
  return invalid(fmt::format("{} is '{}'; wanted a number from {} to {}", name, printable(text),
                             -kMostAdapterFactor, kMostAdapterFactor));
}

Status set(AdapterOptions& options, std::string_view name, std::string_view value) {
  const bool init = name == "init";
  if (!init && name != "alpha" && name != "scale") {
    return invalid(fmt::format("there is no '{}'; wanted alpha, scale or init", printable(name)));
  }
  std::optional<double>& factor = name == "alpha" ? options.alpha : options.scale;
  if (init ? !options.init.empty() : factor.has_value()) {
    return invalid(fmt::format("{} is given twice", name));
  }
  if (!init) {
    FULMAR_ASSIGN(factor, read_factor(name, value));
    return {};
  }
  if (value.empty()) return invalid("init is empty; wanted a file");
  options.init = value;
  return {};
}

Error in_flag(std::string_view text, const Error& error) {
  return {error.kind, fmt::format("adapter '{}': {}", printable(text), error.text)};
}

// Reads what follows the name.
Result<AdapterFlag> read_rest(std::string_view rest) {
  AdapterFlag flag;
  for (size_t comma = last_setting(rest); comma != rest.npos; comma = last_setting(rest)) {
    const std::string_view setting = rest.substr(comma + 1);
    const size_t equals = setting.find('=');
    FULMAR_TRY(set(flag.options, setting.substr(0, equals), setting.substr(equals + 1)));
    rest = rest.substr(0, comma);
  }
  if (flag.options.alpha && flag.options.scale) {
    return invalid("both alpha and scale are given; wanted one");
  }
  if (rest.empty()) return invalid("the path is empty; wanted PATH[,alpha=A][,scale=S][,init=FILE]");
  flag.path = rest;
  return flag;
}

}  // namespace

bool is_adapter_name(std::string_view text) {
  const auto fits = [](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
  return !text.empty() && text.size() <= kLongestName && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), fits);
}

Result<AdapterFlag> read_adapter_flag(std::string_view text) {
  Result<AdapterFlag> flag = read_rest(text);
  if (!flag.ok()) return in_flag(text, flag.error());
  return flag;
}

Result<AdapterFlag> read_named_adapter_flag(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == text.npos || !is_adapter_name(name)) {
    return in_flag(text, invalid(fmt::format("the name is '{}'; wanted NAME=PATH, the name of at most {} "
                                             "letters, digits, '.', '_' and '-'",
                                             printable(equals == text.npos ? "" : name), kLongestName)));
  }
  Result<AdapterFlag> flag = read_rest(text.substr(equals + 1));
  if (!flag.ok()) return in_flag(text, flag.error());
  flag->name = name;
  return flag;
}

}  // namespace fulmar
