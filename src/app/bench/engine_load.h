// Runs streams on an engine without a server: the cost of a load below HTTP.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "load/completion_reader.h"
#include "text/tokenizer.h"

namespace fulmar {

// Runs one request per prompt, all at once, each for exactly `tokens` tokens; blocks until all have ended.
Result<std::vector<AnswerRecord>> run_on_engine(Engine& engine, const Tokenizer& tokenizer,
                                                std::span<const std::string> prompts, int64_t tokens);

}  // namespace fulmar
