// Judges one schema of a suite: compiles it as a strict answer format and feeds it instances token by token
// under its masks, as a row's tokens are drawn. Knows nothing of files and processes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/eval/schema_suite.h"
#include "grammar/token_tree.h"
#include "text/tokenizer.h"

namespace fulmar {

struct SchemaVerdict {
  enum class Status : uint8_t {
    pass,     // compiled; each valid instance was accepted and no invalid one
    fail,     // compiled, but an instance went wrong
    refused,  // not compiled
    crash,    // the process that compiled it or fed it instances has ended
    timeout,  // it was stopped after its CPU time
  };
  // How far an instance was accepted: bytes of its text; `whole`: all of them, and the end.
  struct Fed {
    size_t bytes = 0;
    bool whole = false;
  };
  struct Test {
    bool valid = false;
    Fed compact, spaced;
    // Returns whether a valid instance was accepted in both forms, or an invalid one in neither.
    bool right() const { return compact.whole == valid && spaced.whole == valid; }
  };

  std::string id;
  Status status = Status::pass;
  std::string reason;  // of refused, crash and timeout
  std::vector<Test> tests;
  // Microseconds of CPU time. `masks`: of each token of the compact forms, in one constraint.
  double compile = 0, first_mask = 0;
  std::vector<double> masks;

  bool compiled() const { return status == Status::pass || status == Status::fail; }
  size_t invalid_taken() const;
};

// Returns a status's word: "pass", "fail", "refused", "crash", "time-out".
std::string_view name_of(SchemaVerdict::Status status);

SchemaVerdict judge_schema(const SchemaCase& one, const Tokenizer& tokenizer,
                           const std::shared_ptr<const TokenTree>& tree);

// Converts a verdict to one JSON object, or back; `with_masks`: with the time of each mask. verdict_of
// returns nothing for text that is no verdict.
std::string json_of(const SchemaVerdict& verdict, bool with_masks);
std::optional<SchemaVerdict> verdict_of(std::string_view json);

}  // namespace fulmar
