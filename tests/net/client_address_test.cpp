// Whom a request counts for: addresses as they are written, and which of X-Forwarded-For is believed.
#include "net/client_address.h"

#include <gtest/gtest.h>

#include "net/worker_proof.h"

namespace fulmar::test {
namespace {

Headers forwarded(const std::vector<std::string>& values) {
  Headers headers;
  for (const std::string& value : values) headers.add("X-Forwarded-For", value);
  return headers;
}

ProxyRules trusting(const std::vector<std::string>& networks) {
  return {.trusted = read_networks(networks).value(), .worker_token = {}};
}

TEST(ClientAddress, IsThePeersWithoutItsPort) {
  EXPECT_EQ(client_behind("127.0.0.1:51234", {}, {}), "127.0.0.1");
  EXPECT_EQ(client_behind("[::1]:51234", {}, {}), "::1");
  EXPECT_EQ(client_behind("[::ffff:10.1.2.3]:1", {}, {}), "10.1.2.3");
  EXPECT_EQ(client_behind("", {}, {}), "");
}

TEST(ClientAddress, OfIpv6IsTheSubscribersNetwork) {
  EXPECT_EQ(client_behind("[2001:db8:1:2:3:4:5:6]:80", {}, {}), "2001:db8:1:2::/64");
  EXPECT_EQ(client_behind("[2001:db8:1:2:ffff::9]:81", {}, {}), "2001:db8:1:2::/64");
}

TEST(ClientAddress, NobodyIsBelievedUnasked) {
  EXPECT_EQ(client_behind("9.9.9.9:1", forwarded({"1.1.1.1"}), {}), "9.9.9.9");
  EXPECT_EQ(client_behind("9.9.9.9:1", forwarded({"1.1.1.1"}), trusting({"10.0.0.0/8"})), "9.9.9.9");
}

struct Chain {
  std::vector<std::string> fields;
  const char* client;
};

class Chains : public testing::TestWithParam<Chain> {};

TEST_P(Chains, TheLastThatIsNotTrustedIsTheClient) {
  const ProxyRules rules = trusting({"10.0.0.0/8", "fd00::/8"});
  EXPECT_EQ(client_behind("10.0.0.1:1", forwarded(GetParam().fields), rules), GetParam().client);
}

INSTANTIATE_TEST_SUITE_P(All, Chains,
                         testing::Values(Chain{{}, "10.0.0.1"},                   //
                                         Chain{{"1.1.1.1"}, "1.1.1.1"},           //
                                         Chain{{"6.6.6.6, 1.1.1.1"}, "1.1.1.1"},  // the first is forged
                                         Chain{{"6.6.6.6,1.1.1.1 , 10.2.2.2"}, "1.1.1.1"},  //
                                         Chain{{"6.6.6.6", "1.1.1.1", "10.3.3.3"}, "1.1.1.1"},
                                         Chain{{"10.4.4.4, 10.5.5.5"}, "10.4.4.4"},       // all are trusted
                                         Chain{{"1.1.1.1, unknown"}, "10.0.0.1"},         //
                                         Chain{{"1.1.1.1, junk, 10.6.6.6"}, "10.6.6.6"},  //
                                         Chain{{""}, "10.0.0.1"},                         //
                                         Chain{{"1.1.1.1:4711"}, "1.1.1.1"},
                                         Chain{{"[2001:db8::1]:4711, fd00::5"}, "2001:db8::/64"}));

TEST(ClientAddress, TheControlPlanesWordNeedsItsProof) {
  const std::string token = random_hex();
  const ProxyRules rules{.trusted = {}, .worker_token = token};
  Headers headers = forwarded({"1.1.1.1"});
  headers.set(std::string(kClientProofHeader), client_proof(token, "1.1.1.1"));
  EXPECT_EQ(client_behind("127.0.0.1:1", headers, rules), "1.1.1.1");
  EXPECT_EQ(client_behind("127.0.0.1:1", headers, {}), "127.0.0.1");
  headers.set("X-Forwarded-For", "1.1.1.2");  // another address under the same proof
  EXPECT_EQ(client_behind("127.0.0.1:1", headers, rules), "127.0.0.1");
  headers.set(std::string(kClientProofHeader), "");
  EXPECT_EQ(client_behind("127.0.0.1:1", headers, {.trusted = {}, .worker_token = ""}), "127.0.0.1");
}

TEST(ClientAddress, ConnectionsCountForTheirClient) {
  const ProxyRules none, proxy = trusting({"10.0.0.0/8"});
  const ProxyRules worker{.trusted = {}, .worker_token = random_hex()};
  EXPECT_EQ(connection_share("1.1.1.1:5", "2.2.2.2", none), "1.1.1.1");
  EXPECT_EQ(connection_share("[2001:db8::1]:5", "::1", none), "2001:db8::/64");
  EXPECT_EQ(connection_share("127.0.0.1:5", "127.0.0.1", none), "127.0.0.1");
  EXPECT_EQ(connection_share("10.1.1.1:5", "10.2.2.2", proxy), "10.1.1.1:5");
  EXPECT_EQ(connection_share("1.1.1.1:5", "10.2.2.2", proxy), "1.1.1.1");
  EXPECT_EQ(connection_share("127.0.0.1:5", "127.0.0.1", worker), "127.0.0.1:5");
  EXPECT_EQ(connection_share("10.1.1.1:5", "10.1.1.1", worker), "10.1.1.1:5");
  EXPECT_EQ(connection_share("10.1.1.2:5", "10.1.1.1", worker), "10.1.1.2");
  EXPECT_EQ(connection_share("", "127.0.0.1", none), "");
}

TEST(ClientAddress, NoChallengeIsAlsoAClient) {
  EXPECT_TRUE(is_challenge(random_hex()));
  EXPECT_FALSE(is_challenge("client 1.1.1.1"));
  EXPECT_FALSE(is_challenge(""));
}

TEST(ClientAddress, NetworksAreReadOrRefusedByName) {
  EXPECT_TRUE(read_network("0.0.0.0/0")->holds(*read_address("9.9.9.9")));
  EXPECT_FALSE(read_network("0.0.0.0/0")->holds(*read_address("2001:db8::1")));
  EXPECT_TRUE(read_network("10.128.0.0/9")->holds(*read_address("10.200.1.1")));
  EXPECT_FALSE(read_network("10.128.0.0/9")->holds(*read_address("10.127.1.1")));
  EXPECT_TRUE(read_network("127.0.0.1")->holds(*read_address("127.0.0.1")));
  EXPECT_FALSE(read_network("127.0.0.1")->holds(*read_address("127.0.0.2")));
  for (const char* wrong :
       {"", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "::/129", "10.0.0.1:80", "[::1]"}) {
    const auto network = read_network(wrong);
    ASSERT_FALSE(network.ok()) << wrong;
    EXPECT_NE(network.error().text.find(std::string("'") + wrong + "'"), std::string::npos);
  }
}

}  // namespace
}  // namespace fulmar::test
