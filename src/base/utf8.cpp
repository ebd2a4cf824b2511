// UTF-8 by the table of well-formed byte sequences (Unicode 15, table 3-7).
#include "base/utf8.h"

#include <algorithm>
#include <utility>

namespace fulmar {
namespace {

// The number of bytes that follow a lead byte, and the range of the first; later ones are 80..BF.
struct Lead {
  size_t followers;
  unsigned char least;
  unsigned char most;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

size_t ascii_run(std::string_view bytes) {
  const auto end =
      std::find_if(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return static_cast<size_t>(end - bytes.begin());
}

// Appends all complete text of `bytes` to `out`; returns the length of the incomplete end.
size_t decode(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t plain = ascii_run(bytes);
    out += bytes.substr(0, plain);
    bytes.remove_prefix(plain);
    if (bytes.empty()) break;
    const Utf8Front front = utf8_front(bytes);
    if (front.kind == Utf8Front::Kind::incomplete) return bytes.size();
    out += front.kind == Utf8Front::Kind::character ? bytes.substr(0, front.length) : kReplacementCharacter;
    bytes.remove_prefix(front.length);
  }
  return 0;
}

}  // namespace

Utf8Front utf8_front(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first < 0x80) return {Utf8Front::Kind::character, 1};
  const Lead lead = lead_of(first);
  if (lead.followers == 0) return {Utf8Front::Kind::invalid, 1};
  for (size_t i = 1; i <= lead.followers; ++i) {
    if (i == bytes.size()) return {Utf8Front::Kind::incomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const unsigned char least = i == 1 ? lead.least : 0x80;
    const unsigned char most = i == 1 ? lead.most : 0xBF;
    if (byte < least || byte > most) return {Utf8Front::Kind::invalid, i};
  }
  return {Utf8Front::Kind::character, lead.followers + 1};
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    bytes.remove_prefix(ascii_run(bytes));
    if (bytes.empty()) break;
    const Utf8Front front = utf8_front(bytes);
    if (front.kind != Utf8Front::Kind::character) return false;
    bytes.remove_prefix(front.length);
  }
  return true;
}

std::string to_utf8(std::string_view bytes) {
  std::string text;
  if (decode(bytes, text) > 0) text += kReplacementCharacter;
  return text;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto low = [&](int shift) { return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | (code_point >> 6));
    out += low(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | (code_point >> 12));
    out += low(6);
    out += low(0);
  } else {
    out += static_cast<char>(0xF0 | (code_point >> 18));
    out += low(12);
    out += low(6);
    out += low(0);
  }
}

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::exchange(held_, {});
    joined += bytes;
    bytes = joined;
  }
  std::string text;
  const size_t undecided = decode(bytes, text);
  held_ = bytes.substr(bytes.size() - undecided);
  return text;
}

size_t Utf8Stream::finish() {
  const size_t dropped = held_.size();
  held_.clear();
  return dropped;
}

}  // namespace fulmar
