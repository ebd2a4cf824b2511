// Dates and times by RFC 3339, addresses by RFC 5321, 1123, 4291 and 3986, identifiers by RFC 9562.
#include "grammar/formats.h"

#include <utility>

// Pieces, so that each is written once. String literals join.
#define FULMAR_DATE                                                                                     \
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-"    \
  "(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-" \
  "02-29)"
#define FULMAR_TIME                                               \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" \
  "(?:[01]\\d|2[0-3]):[0-5]\\d)"
#define FULMAR_HEX4 "[0-9a-fA-F]{4}"
#define FULMAR_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define FULMAR_IPV4 "(?:" FULMAR_OCTET "\\.){3}" FULMAR_OCTET
#define FULMAR_H16 "[0-9a-fA-F]{1,4}"
// Six labels of 40 characters stay within the 253 of a whole name.
#define FULMAR_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}[A-Za-z0-9])?"
#define FULMAR_HOST FULMAR_LABEL "(?:\\." FULMAR_LABEL "){0,5}"
#define FULMAR_URI_CHARACTER "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define FULMAR_ATOM "[A-Za-z0-9_+-]+"

namespace fulmar {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", "^" FULMAR_DATE "$"},
    {"time", "^" FULMAR_TIME "$"},
    {"date-time", "^" FULMAR_DATE "T" FULMAR_TIME "$"},
    {"duration",
     "^P(?:\\d+W|(?=.)(?:\\d+Y)?(?:\\d+M)?(?:\\d+D)?(?:T(?=\\d)(?:\\d+H)?(?:\\d+M)?(?:\\d+S)?)?)$"},
    {"email", "^" FULMAR_ATOM "(?:\\." FULMAR_ATOM
              ")*@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\\.)+[A-Za-z]{2,12}$"},
    {"uuid", "^" FULMAR_HEX4 FULMAR_HEX4 "-(?:" FULMAR_HEX4 "-){3}[0-9a-fA-F]{12}$"},
    {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(?://" FULMAR_HOST "(?::\\d{1,5})?(?:/" FULMAR_URI_CHARACTER
            "*)*|" FULMAR_URI_CHARACTER "+)(?:\\?(?:" FULMAR_URI_CHARACTER
            "|[/?])*)?(?:#(?:" FULMAR_URI_CHARACTER "|[/?])*)?$"},
    {"ipv4", "^" FULMAR_IPV4 "$"},
    {"ipv6", "^(?:(?:" FULMAR_H16 ":){7}" FULMAR_H16 "|(?:" FULMAR_H16 ":){1,7}:|(?:" FULMAR_H16
             ":){1,6}(?::" FULMAR_H16 ")|(?:" FULMAR_H16 ":){1,5}(?::" FULMAR_H16 "){2}|(?:" FULMAR_H16
             ":){1,4}(?::" FULMAR_H16 "){3}|(?:" FULMAR_H16 ":){1,3}(?::" FULMAR_H16 "){4}|(?:" FULMAR_H16
             ":){1,2}(?::" FULMAR_H16 "){5}|" FULMAR_H16 ":(?::" FULMAR_H16 "){6}|:(?:(?::" FULMAR_H16
             "){1,7}|:)|::(?:[fF]{4}:)?" FULMAR_IPV4 ")$"},
    {"hostname", "^" FULMAR_HOST "$"},
};

}  // namespace

std::string_view format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return {};
}

std::string_view base64_pattern() {
  return "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";
}

}  // namespace fulmar
