// Suites of JSON Schemas with instances that each must accept or refuse: lines {"id","schema","tests":
// [{"valid","data"}]}, or the files of the JSON-Schema-Test-Suite in one archive. Knows nothing of compiling.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fulmar {

struct SchemaTest {
  bool valid = false;
  // The instance as text: without any white space, and with a blank after each comma and colon. Numbers are
  // written as in the suite.
  std::string compact, spaced;
};

struct SchemaCase {
  std::string id;
  std::string schema;  // JSON
  std::vector<SchemaTest> tests;
};

// Parses a suite from its file's content, a text of lines or a tar archive of JSON files. Errors (corrupt)
// name the line or file, with `name`, and what was wanted.
Result<std::vector<SchemaCase>> parse_schema_suite(std::string_view content, const std::string& name);
// Reads the file, through the program xz if its name ends in ".xz". Errors: those of parse_schema_suite;
// not_found; io: xz cannot be started or fails.
Result<std::vector<SchemaCase>> read_schema_suite(const std::string& path);

// Returns `count` of the cases, evenly spread and always the same; all of them if there are not more.
std::vector<SchemaCase> sample_of(std::vector<SchemaCase> cases, size_t count);

// Returns the part of a suite that an id belongs to: "Github_easy" of "Github_easy---o1", "BFCL" of
// "BFCL_java_1", "optional" of "optional/anchor.json: ...".
std::string part_of(std::string_view id);

// Returns the text of a valid JSON value with these between its tokens, and strings in their shortest form.
std::string with_separators(std::string_view json, std::string_view comma, std::string_view colon);

}  // namespace fulmar
