// Writes log-probabilities.
#include "server/generate/logprobs.h"

namespace fulmar {
namespace {

void write_bytes(JsonWriter& json, std::string_view bytes) {
  json.key("bytes").begin_array();
  for (const char byte : bytes) json.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
  json.end_array();
}

void write_entry(JsonWriter& json, std::string_view bytes, float logprob) {
  json.member("token", bytes).member("logprob", logprob);
  write_bytes(json, bytes);
}

}  // namespace

void write_content_logprobs(JsonWriter& json, std::span<const TokenRecord> tokens,
                            const Tokenizer& tokenizer) {
  json.begin_object().key("content").begin_array();
  for (const TokenRecord& record : tokens) {
    json.begin_object();
    write_entry(json, record.bytes, record.logprob);
    json.key("top_logprobs").begin_array();
    for (const TokenLogprob& other : record.top) {
      json.begin_object();
      write_entry(json, tokenizer.bytes(other.token), other.logprob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

void write_legacy_logprobs(JsonWriter& json, std::span<const TokenRecord> tokens, const Tokenizer& tokenizer,
                           int64_t& offset, bool first_unknown) {
  json.begin_object().key("tokens").begin_array();
  for (const TokenRecord& record : tokens) json.value(record.bytes);
  json.end_array().key("token_logprobs").begin_array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0 && first_unknown) {
      json.null();
    } else {
      json.value(tokens[i].logprob);
    }
  }
  json.end_array().key("top_logprobs").begin_array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0 && first_unknown) {
      json.null();
      continue;
    }
    json.begin_object();
    for (const TokenLogprob& other : tokens[i].top) json.member(tokenizer.bytes(other.token), other.logprob);
    json.end_object();
  }
  json.end_array().key("text_offset").begin_array();
  for (const TokenRecord& record : tokens) {
    json.value(offset);
    offset += count_characters(record.bytes);
  }
  json.end_array().end_object();
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u;
  return count;
}

}  // namespace fulmar
