// Parts of documents that are made from tables in the code: between a line "<!-- NAME -->" and "<!-- end
// -->".
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "support/folders.h"

namespace fulmar::testing {

// Fails where the part of docs/`document` is not `wanted`. With FULMAR_WRITE_DOCS in the environment it is
// written anew instead.
inline void expect_section(const std::string& document, const std::string& name, const std::string& wanted) {
  const auto path = support::source_folder() / "docs" / document;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string mark = "<!-- " + name + " -->\n";
  const size_t from = text.find(mark);
  const size_t end = text.find("<!-- end -->", from);
  ASSERT_TRUE(from != std::string::npos && end != std::string::npos) << path << " has no part " << name;
  const size_t begin = from + mark.size();
  if (std::getenv("FULMAR_WRITE_DOCS")) {
    text.replace(begin, end - begin, wanted);
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(begin, end - begin), wanted)
      << path << ": run this test with FULMAR_WRITE_DOCS=1 in the environment";
}

}  // namespace fulmar::testing
