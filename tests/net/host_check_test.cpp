// Names in Host that are this server, and those of others.
#include "net/host_check.h"

#include <gtest/gtest.h>

#include "net/cross_site.h"

namespace fulmar::test {
namespace {

bool asked_as(const std::string& host, const std::vector<std::string>& allowed = {}) {
  Headers headers;
  headers.add("Host", host);
  return is_meant_for_us(headers, allowed);
}

TEST(HostCheck, AddressesAndLoopbackNamesAreOurs) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8000", "10.1.2.3:8000", "[::1]", "[::1]:8000", "[fe80::1]:8000", "localhost",
        "LocalHost:8000", "localhost.:8000", "chat.localhost:8000"}) {
    EXPECT_TRUE(asked_as(host)) << host;
  }
}

TEST(HostCheck, OtherNamesAreNot) {
  for (const char* host : {"evil.example",
                           "evil.example:8000",
                           "127.0.0.1.evil.example",
                           "localhost.evil.example",
                           "evillocalhost",
                           "1.2.3",
                           "",
                           ":8000",
                           "[evil]",
                           "127.0.0.1@evil.example",
                           "[::1]evil.example",
                           "[::1]evil.example:80",
                           "[::1]:80evil.example",
                           "[::1].evil.example",
                           "127.0.0.1:evil.example",
                           "127.0.0.1:80.evil.example",
                           "localhost:80.evil.example",
                           "[::1",
                           "[::1]]",
                           "localhost:80:80"}) {
    EXPECT_FALSE(asked_as(host)) << host;
  }
}

TEST(HostCheck, ListeningOnLoopbackIsToldFromListeningToOthers) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(is_loopback_host(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.evil.example", "localhost.evil.example", ""}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
  }
}

TEST(HostCheck, ProbesWithoutANameAreOurs) { EXPECT_TRUE(is_meant_for_us({}, {})); }

TEST(HostCheck, NamesThatAreGivenAreOurs) {
  EXPECT_TRUE(asked_as("Fulmar.Lan:8000", {"other", "fulmar.lan"}));
  EXPECT_FALSE(asked_as("fulmar.lan.evil.example", {"fulmar.lan"}));
  EXPECT_FALSE(asked_as("x.fulmar.lan", {"fulmar.lan"}));
}

TEST(HostCheck, ANameHasLabelsAndNoPort) {
  for (const char* name : {"a", "fulmar.lan", "xn--bcher-kva.example", "gpu_1", "10.0.0.1"}) {
    EXPECT_TRUE(is_host_name(name)) << name;
  }
  for (const char* name : {"", ".", "a.", ".a", "a..b", "a b", "a:80", "http://a", "a/b",
                           "b\xc3\xbc"
                           "cher",
                           "[::1]", "*"}) {
    EXPECT_FALSE(is_host_name(name)) << name;
  }
  EXPECT_FALSE(is_host_name(std::string(254, 'a')));
}

TEST(CrossSite, HostsAreComparedWithoutCase) {
  const auto from = [](const std::string& origin) {
    Headers headers;
    headers.add("Host", "localhost:8000");
    headers.add("Origin", origin);
    return is_cross_site(headers);
  };
  for (const char* own : {"http://localhost:8000", "http://LOCALHOST:8000", "HTTP://LocalHost:8000"}) {
    EXPECT_FALSE(from(own)) << own;
  }
  for (const char* other :
       {"http://localhost:8001", "http://localhost", "http://evil.example:8000", "null", ""}) {
    EXPECT_TRUE(from(other)) << other;
  }
}

TEST(HostCheck, EveryHostFieldCounts) {
  Headers headers;
  headers.add("Host", "localhost");
  headers.add("host", "evil.example");
  EXPECT_FALSE(is_meant_for_us(headers, {}));
}

}  // namespace
}  // namespace fulmar::test
