// How a worker shows its supervisor that it is the process that was started, before the supervisor tells it
// any secret: it answers a challenge with a keyed hash of it. The key is made for one run and handed over in
// the environment.
#pragma once

#include <string>
#include <string_view>

namespace fulmar {

inline constexpr const char* kWorkerTokenVariable = "FULMAR_WORKER_TOKEN";
inline constexpr std::string_view kChallengeHeader = "Fulmar-Challenge";
inline constexpr std::string_view kProofHeader = "Fulmar-Proof";

// 256 random bits in hexadecimal digits: a token, or a challenge.
std::string random_hex();
// Whether a text could be of random_hex(). Others must not be answered with a proof: who may choose the text
// would get proofs for other purposes.
bool is_challenge(std::string_view text);
// HMAC-SHA256 of the challenge under the token, in hexadecimal digits. Empty for an empty token.
std::string worker_proof(std::string_view token, std::string_view challenge);

}  // namespace fulmar
