// fulmar eval --schemas: judges a suite of schemas, each in a process that may crash or
// be stopped, and prints tables.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "app/eval/schema_judge.h"
#include "base/result.h"
#include "text/tokenizer.h"

namespace fulmar {

struct SchemaEvalFlags {
  std::string suite;  // see read_schema_suite
  std::string json;   // file for one line of JSON a schema; empty: none
  bool each = false;  // print what went wrong with each schema
  size_t sample = 0;  // number of schemas, evenly spread; 0: all
};

// CPU seconds after which a schema is stopped.
inline constexpr int kSchemaSeconds = 10;

// Returns the result of `judge` for each case, in order. It runs in processes of their own: a case that
// crashes one, or takes it more than `seconds` of CPU time, is a crash or a time-out, and a new process
// continues with the next case. Fails (io) if no process can be started.
Result<std::vector<SchemaVerdict>> judge_apart(const std::vector<SchemaCase>& cases,
                                               const std::function<SchemaVerdict(const SchemaCase&)>& judge,
                                               int seconds = kSchemaSeconds);

// Judges the suite and prints times and a table with the row "all" last. Fails for errors of reading and
// writing; a schema's own errors are results.
Status eval_schemas(const SchemaEvalFlags& flags, const Tokenizer& tokenizer);

}  // namespace fulmar
