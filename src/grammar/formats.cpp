// Dates and times by RFC 3339, addresses by RFC 5321, 1123, 4291 and 3986, identifiers by RFC 9562.
#include "grammar/formats.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>

#include "base/check.h"

// Pieces, so that each is written once. String literals join.
#define FULMAR_DATE                                                                                     \
  "(?:\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-"    \
  "(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-" \
  "02-29)"
#define FULMAR_TIME                                               \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]" \
  "(?:[01]\\d|2[0-3]):[0-5]\\d)"
#define FULMAR_ANY_TIME \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[Zz]|[+-](?:[01]\\d|2[0-3])(?::?[0-5]\\d)?)?"
#define FULMAR_DAYS "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define FULMAR_HOURS "T(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define FULMAR_HEX4 "[0-9a-fA-F]{4}"
#define FULMAR_UUID FULMAR_HEX4 FULMAR_HEX4 "-(?:" FULMAR_HEX4 "-){3}[0-9a-fA-F]{12}"
#define FULMAR_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define FULMAR_IPV4 "(?:" FULMAR_OCTET "\\.){3}" FULMAR_OCTET
#define FULMAR_H16 "[0-9a-fA-F]{1,4}"
#define FULMAR_IPV6                                                                             \
  "(?:(?:" FULMAR_H16 ":){7}" FULMAR_H16 "|(?:" FULMAR_H16 ":){1,7}:|(?:" FULMAR_H16            \
  ":){1,6}(?::" FULMAR_H16 ")|(?:" FULMAR_H16 ":){1,5}(?::" FULMAR_H16 "){2}|(?:" FULMAR_H16    \
  ":){1,4}(?::" FULMAR_H16 "){3}|(?:" FULMAR_H16 ":){1,3}(?::" FULMAR_H16 "){4}|(?:" FULMAR_H16 \
  ":){1,2}(?::" FULMAR_H16 "){5}|" FULMAR_H16 ":(?::" FULMAR_H16 "){6}|:(?:(?::" FULMAR_H16     \
  "){1,7}|:)|::(?:[fF]{4}:)?" FULMAR_IPV4 ")"
// Six labels of 40 characters stay within the 253 of a whole name.
#define FULMAR_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,38}[A-Za-z0-9])?"
#define FULMAR_HOST FULMAR_LABEL "(?:\\." FULMAR_LABEL "){0,5}"
// Two hyphens in the third and fourth place belong to names of other scripts in ASCII, which have rules of
// their own.
#define FULMAR_PLAIN_LABEL "(?!..--)" FULMAR_LABEL
#define FULMAR_URI_SIGNS "A-Za-z0-9._~!$&'()*+,;=@\\-"
#define FULMAR_PERCENT "%[0-9A-Fa-f]{2}"
// Letters of other scripts that RFC 3987 lets be; of them those that stand in names as they are.
#define FULMAR_OTHER "\\u00A1-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF"
#define FULMAR_SMALL "\\u00DF-\\u00F6\\u00F8-\\u00FF\\u03B1-\\u03C1\\u0430-\\u044F\\u4E00-\\u9FA5"
// `more`: characters beside those of a URI.
#define FULMAR_SEGMENT(more) "(?:[" FULMAR_URI_SIGNS ":" more "]|" FULMAR_PERCENT ")"
#define FULMAR_TAIL(more) "(?:\\?(?:" FULMAR_SEGMENT(more) "|[/?])*)?(?:#(?:" FULMAR_SEGMENT(more) "|[/?])*)?"
#define FULMAR_AUTHORITY(host) "(?:[A-Za-z0-9._~-]+(?::[A-Za-z0-9._~-]*)?@)?" host "(?::\\d{1,5})?"
#define FULMAR_FOLDERS(more) "(?:/" FULMAR_SEGMENT(more) "*)*"
#define FULMAR_PATH(more, host)                                                      \
  "(?://" FULMAR_AUTHORITY(host) FULMAR_FOLDERS(more) "|(?://)?/(?:" FULMAR_SEGMENT( \
      more) "+" FULMAR_FOLDERS(more) ")?|" FULMAR_SEGMENT(more) "+" FULMAR_FOLDERS(more) ")"
#define FULMAR_SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define FULMAR_RELATIVE(more, host)                                                                    \
  "(?://" FULMAR_AUTHORITY(host) FULMAR_FOLDERS(more) "|/(?:" FULMAR_SEGMENT(more) "+" FULMAR_FOLDERS( \
      more) ")?|(?:[" FULMAR_URI_SIGNS more "]|" FULMAR_PERCENT ")+" FULMAR_FOLDERS(more) ")?"
#define FULMAR_OTHER_HOST "[A-Za-z0-9" FULMAR_SMALL "]{1,15}(?:\\.[A-Za-z0-9" FULMAR_SMALL "]{1,15}){0,5}"
#define FULMAR_ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define FULMAR_DOMAIN "(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\\.)+[A-Za-z]{2,12}"
#define FULMAR_BASE64 "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
#define FULMAR_POINTER "(?:/(?:[^~/]|~[01])*)*"
#define FULMAR_RELATIVE_POINTER "(?:0|[1-9]\\d*)(?:#|" FULMAR_POINTER ")"
#define FULMAR_VARIABLE "(?:[A-Za-z0-9_]|" FULMAR_PERCENT ")+(?::[1-9]\\d{0,3}|\\*)?"
// Regular expressions whose groups are at most two deep.
#define FULMAR_ESCAPE "\\\\[dDwWsSnrtfv^$\\\\.*+?()\\[\\]{}|/]"
#define FULMAR_CLASS "\\[\\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_ !#%&',.:;<=>@~\"]|" FULMAR_ESCAPE ")+\\]"
#define FULMAR_TIMES                   \
  "(?:[*+?]\\?"                        \
  "?|\\{\\d{1,3}(?:,|,1\\d{3})?\\}\\?" \
  "?)?"
#define FULMAR_REGEX(group) \
  "(?:[\\^$|]|(?:[^\\\\()\\[\\]{}*+?|^$]|" FULMAR_ESCAPE "|" FULMAR_CLASS group ")" FULMAR_TIMES ")*"
#define FULMAR_GROUP(inner) "|\\((?:\\?:)?" inner "\\)"

namespace fulmar {
namespace {

struct StringFormat {
  std::string_view name;
  std::string_view pattern;      // anchored at both ends
  std::string_view widest = {};  // what any reader accepts as one; empty: unknown
};

constexpr StringFormat kFormats[] = {
    {"date", "^" FULMAR_DATE "$", "^" FULMAR_DATE "$"},
    {"time", "^" FULMAR_TIME "$", "^" FULMAR_ANY_TIME "$"},
    {"date-time", "^" FULMAR_DATE "T" FULMAR_TIME "$", "^" FULMAR_DATE "[Tt\\s]" FULMAR_ANY_TIME "$"},
    {"duration", "^P(?:\\d+W|" FULMAR_DAYS "(?:" FULMAR_HOURS ")?|" FULMAR_HOURS ")$", "^P"},
    {"email", "^" FULMAR_ATOM "(?:\\." FULMAR_ATOM ")*@" FULMAR_DOMAIN "$", "@"},
    {"idn-email",
     "^[A-Za-z0-9_" FULMAR_SMALL "]+(?:[.+-][A-Za-z0-9_" FULMAR_SMALL "]+)*@" FULMAR_OTHER_HOST "$", "@"},
    {"uuid", "^" FULMAR_UUID "$", "^(?:[Uu][Rr][Nn]:[Uu][Uu][Ii][Dd]:)?" FULMAR_UUID "$"},
    {"uri", "^" FULMAR_SCHEME FULMAR_PATH("", FULMAR_HOST) FULMAR_TAIL("") "$", ":"},
    {"uri-reference", "^(?:" FULMAR_SCHEME FULMAR_PATH("", FULMAR_HOST) "|" FULMAR_RELATIVE(
                          "", FULMAR_HOST) ")" FULMAR_TAIL("") "$"},
    {"iri", "^" FULMAR_SCHEME FULMAR_PATH(FULMAR_OTHER, FULMAR_OTHER_HOST) FULMAR_TAIL(FULMAR_OTHER) "$",
     ":"},
    {"iri-reference", "^(?:" FULMAR_SCHEME FULMAR_PATH(FULMAR_OTHER, FULMAR_OTHER_HOST) "|" FULMAR_RELATIVE(
                          FULMAR_OTHER, FULMAR_OTHER_HOST) ")" FULMAR_TAIL(FULMAR_OTHER) "$"},
    {"uri-template", "^(?:[!#$&(-;=?-\\[\\]_a-zA-Z~]|" FULMAR_PERCENT "|\\{[+#./;?&]?" FULMAR_VARIABLE
                     "(?:," FULMAR_VARIABLE ")*\\})*$"},
    {"json-pointer", "^" FULMAR_POINTER "$", "^" FULMAR_POINTER "$"},
    {"relative-json-pointer", "^" FULMAR_RELATIVE_POINTER "$", "^" FULMAR_RELATIVE_POINTER "$"},
    {"regex", "^" FULMAR_REGEX(FULMAR_GROUP(FULMAR_REGEX(FULMAR_GROUP(FULMAR_REGEX(""))))) "$"},
    {"ipv4", "^" FULMAR_IPV4 "$", "^" FULMAR_IPV4 "$"},
    {"ipv6", "^" FULMAR_IPV6 "$", ":"},
    {"hostname", "^" FULMAR_PLAIN_LABEL "(?:\\." FULMAR_PLAIN_LABEL "){0,5}$", "^[A-Za-z0-9._-]*$"},
    {"idn-hostname", "^" FULMAR_OTHER_HOST "$"},
    {"byte", "^" FULMAR_BASE64 "$", "^" FULMAR_BASE64 "$"},
};

class KeptTexts {
 public:
  // Returns the strings in which the pattern is found; null where it is empty.
  const TextAutomaton* of(std::string_view pattern) {
    if (pattern.empty()) return nullptr;
    std::call_once(made_, [&] {
      const auto tree = parse_pattern(pattern);
      FULMAR_CHECK(tree.ok());
      Budget budget;
      auto texts = TextAutomaton::of_pattern(*tree, budget);
      FULMAR_CHECK(texts.ok());
      texts_ = std::move(*texts);
    });
    return &texts_;
  }

 private:
  std::once_flag made_;
  TextAutomaton texts_;
};

// Returns the index of a format in the table, or its size if there is none of this name.
size_t index_of(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                   [&](const StringFormat& format) { return format.name == name; });
  return static_cast<size_t>(found - std::begin(kFormats));
}

}  // namespace

const TextAutomaton* format_texts(std::string_view format) {
  static std::array<KeptTexts, std::size(kFormats)> kept;
  const size_t at = index_of(format);
  return at < kept.size() ? kept[at].of(kFormats[at].pattern) : nullptr;
}

const TextAutomaton* widest_format_texts(std::string_view format) {
  static std::array<KeptTexts, std::size(kFormats)> kept;
  const size_t at = index_of(format);
  return at < kept.size() ? kept[at].of(kFormats[at].widest) : nullptr;
}

}  // namespace fulmar
