// Where requests to the outside world go: redirects, proxies, who may see a token.
#include "hub/web_route.h"

#include <gtest/gtest.h>

#include <map>

namespace fulmar {
namespace {

Url url(std::string_view text) { return *parse_web_url(text); }

std::string where(std::string_view from, std::string_view location) {
  const auto next = follow_location(url(from), location);
  return next.ok() ? absolute_form(*next) : "refused";
}

TEST(FollowLocation, ResolvesReferences) {
  const std::string from = "https://hub.example/a/b?c=d";
  EXPECT_EQ(where(from, "https://cdn.example:8443/x?y"), "https://cdn.example:8443/x?y");
  EXPECT_EQ(where(from, "//cdn.example/x"), "https://cdn.example/x");
  EXPECT_EQ(where(from, "/x#part"), "https://hub.example/x");
  EXPECT_EQ(where(from, "x"), "https://hub.example/a/x");
  EXPECT_EQ(where(from, "x:y"), "https://hub.example/a/x:y");
  EXPECT_EQ(where(from, "?e"), "https://hub.example/a/b?e");
  EXPECT_EQ(where("http://h:81/a", "https://h/b"), "https://h/b");
}

TEST(FollowLocation, NeverLeavesEncryptionNorHttp) {
  EXPECT_EQ(where("https://hub.example/a", "http://hub.example/a"), "refused");
  EXPECT_EQ(where("http://hub.example/a", "ftp://hub.example/a"), "refused");
  EXPECT_EQ(where("http://hub.example/a", "file:///etc/passwd"), "refused");
}

TEST(SameOrigin, CountsSchemeHostAndPort) {
  EXPECT_TRUE(same_origin(url("https://Hub.example/a"), url("https://hub.example:443/b")));
  EXPECT_FALSE(same_origin(url("https://hub.example"), url("http://hub.example:443")));
  EXPECT_FALSE(same_origin(url("https://hub.example"), url("https://hub.example:444")));
  EXPECT_FALSE(same_origin(url("https://hub.example"), url("https://hub.example.evil")));
}

// "host:port user:password", "" for none, "refused" for an error.
std::string proxy(std::string_view to, const std::map<std::string, std::string>& set) {
  const auto found = proxy_for(url(to), [&](const char* name) {
    const auto entry = set.find(name);
    return entry == set.end() ? std::string() : entry->second;
  });
  if (!found.ok()) return "refused";
  if (!*found) return "";
  return host_and_port((*found)->host, (*found)->port) +
         ((*found)->credentials.empty() ? "" : " " + (*found)->credentials);
}

TEST(ProxyFor, FollowsTheEnvironment) {
  EXPECT_EQ(proxy("https://h", {}), "");
  EXPECT_EQ(proxy("https://h", {{"https_proxy", "http://p:3128/"}}), "p:3128");
  EXPECT_EQ(proxy("https://h", {{"HTTPS_PROXY", "p"}}), "p:80");
  EXPECT_EQ(proxy("https://h", {{"http_proxy", "http://p:3128"}}), "");
  EXPECT_EQ(proxy("http://h", {{"http_proxy", "http://ann:s%40fe@p:3128"}}), "p:3128 ann:s@fe");
  EXPECT_EQ(proxy("http://h", {{"HTTP_PROXY", "http://p:3128"}}), "");
  EXPECT_EQ(proxy("http://h", {{"ALL_PROXY", "http://[::1]:9"}}), "[::1]:9");
  EXPECT_EQ(proxy("http://h", {{"all_proxy", "socks5://p:1080"}}), "refused");
  EXPECT_EQ(proxy("http://h", {{"all_proxy", "http://p:x"}}), "refused");
}

TEST(ProxyFor, LeavesOutWhatIsListed) {
  const auto listed = [](std::string_view to, const std::string& list) {
    return proxy(to, {{"https_proxy", "p:1"}, {"no_proxy", list}}).empty();
  };
  EXPECT_TRUE(listed("https://hub.example", "*"));
  EXPECT_TRUE(listed("https://hub.example", "localhost, example"));
  EXPECT_TRUE(listed("https://hub.example", ".hub.example"));
  EXPECT_TRUE(listed("https://HUB.example:444", "hub.EXAMPLE"));
  EXPECT_FALSE(listed("https://hub.example", "ub.example"));
  EXPECT_FALSE(listed("https://hub.example", ""));
}

TEST(HostField, LeavesOutTheUsualPort) {
  EXPECT_EQ(host_field(url("https://h")), "h");
  EXPECT_EQ(host_field(url("http://h:443")), "h:443");
  EXPECT_EQ(host_field(url("https://[::1]")), "[::1]");
}

}  // namespace
}  // namespace fulmar
