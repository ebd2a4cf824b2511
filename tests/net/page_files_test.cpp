// Serving embedded files: entity tags, compression, and the policy that keeps a page to its own server.
#include "net/page_files.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

constexpr PageFile kFile{"x.js", "plain", "packed", "\"tag\""};

HttpResponse ask(const char* name, const char* value, const PageFile& file = kFile) {
  HttpRequest request;
  if (*name) request.headers.add(name, value);
  return answer_page_file(request, file);
}

TEST(PageFiles, CompressedOnlyWhereTheClientTakesIt) {
  EXPECT_EQ(ask("", "").body, "plain");
  EXPECT_EQ(ask("", "").headers.find("Content-Encoding"), nullptr);
  for (const char* taken : {"gzip", "br, gzip;q=0.8", "GZIP", "deflate,gzip"}) {
    const HttpResponse response = ask("Accept-Encoding", taken);
    EXPECT_EQ(response.body, "packed") << taken;
    EXPECT_EQ(response.headers.get("Content-Encoding"), "gzip") << taken;
    EXPECT_EQ(response.headers.get("Vary"), "Accept-Encoding") << taken;
  }
  for (const char* refused : {"br", "gzip;q=0", "gzip; q=0.000", "xgzip"}) {
    EXPECT_EQ(ask("Accept-Encoding", refused).body, "plain") << refused;
  }
  EXPECT_EQ(ask("Accept-Encoding", "gzip", {"x.woff2", "font", {}, "\"t\""}).body, "font");
}

TEST(PageFiles, AKnownTagIsAnsweredWithoutTheFile) {
  for (const char* known : {"\"tag\"", "W/\"tag\"", "\"other\", \"tag\"", "*"}) {
    const HttpResponse response = ask("If-None-Match", known);
    EXPECT_EQ(response.status, 304) << known;
    EXPECT_EQ(response.body, "") << known;
    EXPECT_EQ(response.headers.get("ETag"), "\"tag\"") << known;
  }
  EXPECT_EQ(ask("If-None-Match", "\"old\"").status, 200);
}

TEST(PageFiles, NothingFromElsewhereAndNoInlineScript) {
  const std::string policy(ask("", "").headers.get("Content-Security-Policy"));
  EXPECT_NE(policy.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(policy.find("script-src 'self';"), std::string::npos);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(policy.find("http"), std::string::npos);
}

TEST(PageFiles, BothPagesAreCarriedWhole) {
  for (const char* name :
       {"chat.html", "chat.js", "chat.css", "dashboard.html", "dashboard.js", "dashboard.css"}) {
    const PageFile* file = find_page_file(name);
    ASSERT_NE(file, nullptr) << name;
    EXPECT_GT(file->content.size(), 200u) << name;
    EXPECT_LT(file->gzip.size(), file->content.size()) << name;
    EXPECT_TRUE(file->gzip.starts_with("\x1f\x8b")) << name;
  }
  EXPECT_EQ(find_page_file("../chat.html"), nullptr);
}

}  // namespace
}  // namespace fulmar
