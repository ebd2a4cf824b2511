// Lets a worker prove to its supervisor that it is the process that was started, before the supervisor sends
// it any secret: the worker answers a challenge with a keyed hash of it. The key is made for one run and
// passed in the environment.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

inline constexpr const char* kWorkerTokenVariable = "FULMAR_WORKER_TOKEN";
inline constexpr std::string_view kChallengeHeader = "Fulmar-Challenge";
inline constexpr std::string_view kProofHeader = "Fulmar-Proof";

// Returns 256 random bits in hexadecimal digits: a token, or a challenge.
std::string random_hex();
// Returns whether a text could come from random_hex(). No other text may be answered with a proof: who could
// choose the text could get proofs for other purposes.
bool is_challenge(std::string_view text);
// Returns HMAC-SHA256 of the challenge under the token, in hexadecimal digits. Empty for an empty token.
std::string worker_proof(std::string_view token, std::string_view challenge);

// The field in which a control plane shows its worker that it looks for a session itself, on a client's
// behalf: whether the client's key opens the route that it asks does not matter then.
inline constexpr std::string_view kSearchHeader = "Fulmar-Search";
// Returns what that field holds for a request to `target`. Empty for an empty token.
std::string search_proof(std::string_view token, std::string_view target);

}  // namespace fulmar
