#include "app/core/option_checks.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "net/host_check.h"

namespace fulmar {
namespace {

constexpr const char* kMayBeEmpty = "may be empty";

// Returns a check that the help does not mention; its name is what it wants.
CLI::Validator check_of(std::string wanted, std::function<bool(const std::string&)> fits) {
  const auto fault = [wanted, fits = std::move(fits)](std::string& word) {
    return fits(word) ? std::string() : fmt::format("is '{}'; wanted {}", word, wanted);
  };
  return {fault, "", wanted};
}

// Returns whether the text is nothing but a decimal number, so that CLI11 reads it in the same
// way: not as octal, for example.
template <class Number>
bool reads_as(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool octal = digits.size() > 1 && digits.starts_with('0') && digits[1] >= '0' && digits[1] <= '9';
  return error == std::errc() && end == text.data() + text.size() && !octal;
}

// Makes the checks of an option that is not in the help begin with its name,
// which the parser omits there.
void name_in_errors(CLI::Option& option) {
  if (!option.get_name().empty() || option.get_lnames().empty()) return;
  const std::string name = "--" + option.get_lnames().front();
  try {
    for (int i = 0;; i++) {
      CLI::Validator* const check = option.get_validator(i);
      const CLI::Validator plain = *check;
      check->operation([plain, name](std::string& word) {
        const std::string text = plain(word);
        return text.empty() ? text : name + " " + text;
      });
    }
  } catch (const CLI::OptionNotFound&) {  // after the last one
  }
}

}  // namespace

CLI::Validator within(double least, double most) {
  return check_of(fmt::format("FLOAT in [{:g} - {:g}]", least, most), [least, most](const std::string& word) {
    double value = 0;  // no comparison holds for NaN
    return reads_as(word, value) && value >= least && value <= most;
  });
}

CLI::Validator whole(int64_t least, uint64_t most) {
  return check_of(fmt::format("INT in [{} - {}]", least, most), [least, most](const std::string& word) {
    int64_t negative = 0;
    uint64_t value = 0;
    if (word.starts_with('-')) return reads_as(word, negative) && negative < 0 && negative >= least;
    return reads_as(word, value) && value <= most && (least < 0 || value >= static_cast<uint64_t>(least));
  });
}

CLI::Validator host_name() { return check_of("the name of a host, without a port", is_host_name); }

CLI::Validator may_be_empty() {
  return {[](std::string&) { return std::string(); }, "", kMayBeEmpty};
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool takes_empty_value(const CLI::Option& option) {
  try {
    return const_cast<CLI::Option&>(option).get_validator(kMayBeEmpty) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!takes_value(*option)) continue;
    if (!takes_empty_value(*option)) {
      option->check(
          [](const std::string& word) { return word.empty() ? "is empty; wanted a value" : std::string(); });
    }
    name_in_errors(*option);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

std::string empty_variable(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const char* const value =
        option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value != nullptr && *value == 0 && option->count() == 0) return option->get_envname();
  }
  for (const CLI::App* command : app.get_subcommands()) {
    if (std::string found = empty_variable(*command); !found.empty()) return found;
  }
  return {};
}

}  // namespace fulmar
