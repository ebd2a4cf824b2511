// fulmar eval --schemas: a suite of schemas, each judged in a process that may crash or be stopped, and the
// tables.
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
  std::string json;   // a file that gets one line of JSON a schema; empty: none
  bool each = false;  // print what went wrong with each schema
  size_t sample = 0;  // so many schemas, evenly spread; 0: all
};

// CPU time after which a schema is stopped.
inline constexpr int kSchemaSeconds = 10;

// Returns what `judge` says of each case, in order. It runs in processes of their own: a case of which it
// crashes or takes more than `seconds` of CPU time is a crash or a time-out, and the next process goes on
// behind it. Errors (io): no process can be started.
Result<std::vector<SchemaVerdict>> judge_apart(const std::vector<SchemaCase>& cases,
                                               const std::function<SchemaVerdict(const SchemaCase&)>& judge,
                                               int seconds = kSchemaSeconds);

// Judges the suite and prints times and a table with the row "all" last. Errors: those of reading and
// writing; what goes wrong with a schema is none.
Status eval_schemas(const SchemaEvalFlags& flags, const Tokenizer& tokenizer);

}  // namespace fulmar
