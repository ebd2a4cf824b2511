// From the flags that name devices to their names.
#include "app/core/open_devices.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fulmar {
namespace {

using testing::HasSubstr;

std::string names(const std::string& devices, const std::string& tp = "1", int64_t gpus = 3) {
  const auto found = device_names({.devices = devices, .tp = tp}, {"cuda", gpus});
  return found.ok() ? fmt::format("{}", fmt::join(*found, " ")) : found.error().text;
}

TEST(DeviceNames, ListsAndTheirShortForms) {
  EXPECT_EQ(names("auto"), "auto");
  EXPECT_EQ(names("all"), "cuda:0 cuda:1 cuda:2");
  EXPECT_EQ(names("cpu"), "cpu");
  EXPECT_EQ(names("1"), "cuda:1");
  EXPECT_EQ(names("cuda"), "cuda:0");
  EXPECT_EQ(names("[0, hip:2,cpu]"), "cuda:0 hip:2 cpu");
}

TEST(DeviceNames, TensorParallelTakesTheFirstOfAuto) {
  EXPECT_EQ(names("auto", "2"), "cuda:0 cuda:1");
  EXPECT_EQ(names("auto", "all"), "cuda:0 cuda:1 cuda:2");
  EXPECT_EQ(names("cpu", "2"), "cpu cpu");
  EXPECT_EQ(names("0,1,2,3", "2"), "cuda:0 cuda:1 cuda:2 cuda:3");
}

TEST(DeviceNames, ErrorsNameWhatIsWrongAndWhatIsThere) {
  EXPECT_THAT(names("auto", "4"), HasSubstr("--tp is 4; this machine has 3 GPUs"));
  EXPECT_THAT(names("all", "1", 0), HasSubstr("--devices is 'all'; this machine has 0 GPUs"));
  EXPECT_THAT(names("0,auto"), HasSubstr("--devices is '0,auto' and names 'auto'; wanted"));
  EXPECT_THAT(names("gpu"), HasSubstr("names 'gpu'"));
  EXPECT_THAT(names("0,"), HasSubstr("names ''"));
  for (const char* tp : {"0", "-1", "65", "two", ""}) EXPECT_THAT(names("auto", tp), HasSubstr("--tp is '"));
}

TEST(CheckActivation, ADeviceThatKnowsItHasToBeThere) {
  EXPECT_TRUE(check_activation("auto", false, true).ok());
  EXPECT_TRUE(check_activation("bf16", true, false).ok());
  EXPECT_TRUE(check_activation("int8", true, true).ok());
  EXPECT_THAT(
      check_activation("fp8", false, true).error().text,
      HasSubstr("'fp8', which is for a GPU, and there is none among the devices; wanted auto, int22"));
  EXPECT_THAT(check_activation("int8", true, false).error().text, HasSubstr("wanted auto, fp16"));
}

}  // namespace
}  // namespace fulmar
