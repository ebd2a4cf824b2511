// What reaches the log's reader.
#include "base/log.h"

#include <gmock/gmock.h>

namespace fulmar {
namespace {

TEST(Log, WhatClientsNameStaysOnItsLineAndLeavesTheTerminalAlone) {
  set_up_log("info");
  testing::internal::CaptureStderr();
  spdlog::info("model '{}' is unknown", "a\nb\x1b[2J\x7f\xc2\x9b!\xc3\xa9");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, testing::EndsWith("model 'a\\x0ab\\x1b[2J\\x7f\\u009b!\xc3\xa9' is unknown\n"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

}  // namespace
}  // namespace fulmar
