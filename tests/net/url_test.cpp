// Escapes, queries, targets and URLs; headers and queries as containers.
#include "net/url.h"

#include <gtest/gtest.h>

#include "net/http_format.h"

namespace fulmar {
namespace {

TEST(PercentDecode, UndoesEscapes) {
  EXPECT_EQ(*percent_decode("a%20b%2Fc+d"), "a b/c+d");
  EXPECT_EQ(*percent_decode("a+b%2b", true), "a b+");
  EXPECT_EQ(*percent_decode("%E6%BC%A2%c3%a9"), "漢é");
  EXPECT_EQ(*percent_decode(""), "");
}

TEST(PercentDecode, RefusesBrokenOnes) {
  for (const std::string_view text : {"%", "%4", "%zz", "a%4", "%00", "%ff", "%c3", "%ed%a0%80"}) {
    EXPECT_FALSE(percent_decode(text).ok()) << text;
  }
}

TEST(PercentEncode, RoundTrips) {
  EXPECT_EQ(percent_encode("a b/é~"), "a%20b%2F%C3%A9~");
  EXPECT_EQ(*percent_decode(percent_encode("x&y=z?# 漢")), "x&y=z?# 漢");
}

TEST(ParseQuery, SplitsAndDecodes) {
  const auto query = parse_query("a=1&&b=x%26y&c&a=2&=v&d=p=q");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->size(), 6u);
  EXPECT_EQ(*query->find("a"), "2");
  EXPECT_EQ(*query->find("b"), "x&y");
  EXPECT_EQ(*query->find("c"), "");
  EXPECT_EQ(*query->find("d"), "p=q");
  EXPECT_EQ(query->find("e"), nullptr);
  EXPECT_FALSE(parse_query("a=%f").ok());
}

TEST(ParseTarget, PathsLoseTrailingSlashes) {
  EXPECT_EQ(parse_target("/")->path, "/");
  EXPECT_EQ(parse_target("/v1/models/")->path, "/v1/models");
  EXPECT_EQ(parse_target("///")->path, "/");
  EXPECT_EQ(parse_target("/v1/sessions/x%2F/")->path, "/v1/sessions/x/");
  EXPECT_EQ(parse_target("/a/?q=1")->path, "/a");
  EXPECT_EQ(*parse_target("/a?q=1#f")->query.find("q"), "1");
  EXPECT_EQ(parse_target("http://h:1/x")->path, "/x");
  EXPECT_EQ(parse_target("http://h")->path, "/");
  EXPECT_EQ(parse_target("http://h#f/x")->path, "/") << "a fragment ends an authority, too";
  EXPECT_EQ(parse_target("*")->path, "*");
  EXPECT_FALSE(parse_target("").ok());
  EXPECT_FALSE(parse_target("x").ok());
  EXPECT_FALSE(parse_target("*#f").ok());
  EXPECT_FALSE(parse_target("#/x").ok());
  EXPECT_FALSE(parse_target("/%").ok());
}

TEST(ParseUrl, TakesItApart) {
  const auto full = parse_url("http://example.org:8080/a/b?c=d#e");
  ASSERT_TRUE(full.ok());
  EXPECT_EQ(full->host, "example.org");
  EXPECT_EQ(full->port, 8080);
  EXPECT_EQ(full->target, "/a/b?c=d");
  EXPECT_EQ(parse_url("HTTP://h")->target, "/");
  EXPECT_EQ(parse_url("http://h?x")->target, "/?x");
  EXPECT_EQ(parse_url("http://[::1]:9/x")->host, "::1");
  EXPECT_EQ(parse_url("http://[::1]")->port, 80);
  for (const std::string_view url :
       {"", "h", "https://h", "ftp://h", "http://", "http://:80", "http://h:", "http://h:0", "http://h:65536",
        "http://h:x", "http://u@h", "http://[::1", "http://[::1]x"}) {
    EXPECT_FALSE(parse_url(url).ok()) << url;
  }
}

TEST(ParseWebUrl, TakesBothSchemesWithTheirPorts) {
  const auto secure = parse_web_url("https://example.org/a?b");
  ASSERT_TRUE(secure.ok());
  EXPECT_TRUE(secure->secure);
  EXPECT_EQ(secure->port, 443);
  EXPECT_EQ(secure->target, "/a?b");
  EXPECT_EQ(parse_web_url("https://h:80")->port, 80);
  EXPECT_FALSE(parse_web_url("http://h")->secure);
  EXPECT_EQ(parse_web_url("http://h")->port, 80);
  for (const std::string_view url : {"", "ftp://h", "https://", "https://u@h", "https://h:0"}) {
    EXPECT_FALSE(parse_web_url(url).ok()) << url;
  }
}

TEST(HostAndPort, BracketsIpv6) {
  EXPECT_EQ(host_and_port("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(host_and_port("::1", 80), "[::1]:80");
}

TEST(Headers, IgnoreCase) {
  Headers headers;
  headers.add("X-One", "1");
  headers.add("x-one", "2");
  headers.add("Connection", "Keep-Alive, upgrade");
  EXPECT_EQ(headers.get("X-ONE"), "1");
  EXPECT_EQ(headers.get("absent"), "");
  EXPECT_TRUE(headers.lists("connection", "keep-alive"));
  EXPECT_FALSE(headers.lists("connection", "keep"));
  headers.set("X-One", "3");
  EXPECT_EQ(headers.size(), 2u);
  EXPECT_EQ(*headers.find("x-one"), "3");
  headers.remove("X-oNe");
  EXPECT_EQ(headers.find("x-one"), nullptr);
}

TEST(RefuseHead, AcceptsPlainFramings) {
  for (const auto& [name, value] :
       {std::pair("Content-Length", "5"), std::pair("Transfer-Encoding", "Chunked"),
        std::pair("Expect", "100-Continue")}) {
    Headers headers;
    headers.add(name, value);
    EXPECT_FALSE(refuse_head(headers).has_value()) << name;
  }
}

// Names of headers whose values become ids, owners and proofs, and others that programs send in any encoding.
TEST(RefuseHead, WantsOneTextOfAHeaderThatIsData) {
  const std::string text = "jos\u00e9", bytes = "jos\xe9";
  const auto refusal_of = [](const std::string& name, const std::vector<std::string>& values) {
    Headers headers;
    for (const std::string& value : values) headers.add(name, value);
    return refuse_head(headers);
  };
  for (const char* name : {"X-RWKV-Session-Id", "x-rwkv-state-id", "X-RWKV-Anything", "FULMAR-OWNER",
                           "Fulmar-Search", "X-Fulmar-Session"}) {
    EXPECT_FALSE(refusal_of(name, {text}).has_value()) << name;
    EXPECT_FALSE(refusal_of(name, {text, text}).has_value()) << name;
    for (const std::vector<std::string>& values :
         {std::vector{bytes}, {text, bytes}, {text, "other"}, {"", text}}) {
      const auto refusal = refusal_of(name, values);
      ASSERT_TRUE(refusal.has_value()) << name;
      EXPECT_EQ(refusal->status, 400);
      EXPECT_NE(refusal->text.find(name), std::string::npos) << refusal->text;
    }
  }
  for (const char* name : {"X-RWKV", "Cookie", "User-Agent", "X-Forwarded-For"})
    EXPECT_FALSE(refusal_of(name, {bytes, text}).has_value()) << name;
}

TEST(RawPath, IsTheTargetsUpToItsQuery) {
  for (const auto& [target, path] : {std::pair("/v1/%ff?a=%ff", "/v1/%ff"),
                                     {"http://h:1/a/%zz#b", "/a/%zz"},
                                     {"http://h", "/"},
                                     {"*", "*"},
                                     {"", ""}}) {
    EXPECT_EQ(raw_path(target), path) << target;
  }
}

TEST(FormatChunk, StatesItsSizeInHexadecimal) {
  EXPECT_EQ(format_chunk("hello"), "5\r\nhello\r\n");
  EXPECT_EQ(format_chunk(std::string(300, 'x')), "12c\r\n" + std::string(300, 'x') + "\r\n");
}

}  // namespace
}  // namespace fulmar
