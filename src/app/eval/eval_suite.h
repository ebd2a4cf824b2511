// Suites of cases with one right answer each: run greedily from the zero state, judged by exact text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace fulmar {

struct SuiteCase {
  std::string skill, prompt, answer;
};

struct SuiteResult {
  std::string output;
  float gap = 0;  // least difference between the best and the second logit along the answer
  Usage usage;
};

// Parses one JSON object a line; errors name the line.
Result<std::vector<SuiteCase>> parse_suite(std::string_view content, std::string_view name);
// Runs all cases as rows of one request; returns results in their order.
Result<std::vector<SuiteResult>> run_suite(Engine& engine, const Tokenizer& tokenizer,
                                           const std::vector<SuiteCase>& cases);
// Prints a table per skill on stdout, with the gain of drafts if there were any; returns
// the weakest skill's percentage.
double print_suite(const std::vector<SuiteCase>& cases, const std::vector<SuiteResult>& results);
Status write_suite(const std::string& path, const std::vector<SuiteCase>& cases,
                   const std::vector<SuiteResult>& results);

}  // namespace fulmar
