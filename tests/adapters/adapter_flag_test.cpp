// How the command line names an adapter: which part is the path, and what a wrong one is told.
#include "adapters/adapter_flag.h"

#include <gtest/gtest.h>

namespace fulmar {
namespace {

std::string refusal(std::string_view text, bool named = false) {
  const auto flag = named ? read_named_adapter_flag(text) : read_adapter_flag(text);
  return flag.ok() ? "read" : flag.error().text;
}

TEST(AdapterFlag, PathAndOptionsComeApart) {
  const auto plain = read_adapter_flag("dir/a.pth");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->path, "dir/a.pth");
  EXPECT_TRUE(plain->name.empty());
  EXPECT_FALSE(plain->options.alpha || plain->options.scale);

  const auto alpha = read_adapter_flag("a.pth,alpha=16");
  ASSERT_TRUE(alpha.ok());
  EXPECT_EQ(alpha->path, "a.pth");
  EXPECT_EQ(alpha->options.alpha, 16);

  const auto pissa = read_adapter_flag("a.pth,init=x=1,b.pth");
  ASSERT_TRUE(pissa.ok());
  EXPECT_EQ(pissa->options.init, "x=1,b.pth");
}

TEST(AdapterFlag, PathsMayHoldCommasAndEquals) {
  for (const std::string_view path : {"a,b.pth", "a=b.pth", ",a", "a,,b", "a,1=2"}) {
    const auto flag = read_adapter_flag(std::string(path) + ",scale=-0.5");
    ASSERT_TRUE(flag.ok()) << flag.error().text;
    EXPECT_EQ(flag->path, path);
    EXPECT_EQ(flag->options.scale, -0.5);
  }
}

TEST(AdapterFlag, NamesComeFirst) {
  const auto flag = read_named_adapter_flag("sql-1.2_b=dir/x=y.pth,alpha=32");
  ASSERT_TRUE(flag.ok()) << flag.error().text;
  EXPECT_EQ(flag->name, "sql-1.2_b");
  EXPECT_EQ(flag->path, "dir/x=y.pth");
  EXPECT_EQ(flag->options.alpha, 32);
  for (const std::string_view name : {"", ".", "..", "a/b", "a b", "\xc3\xa4"}) {
    EXPECT_FALSE(read_named_adapter_flag(std::string(name) + "=p").ok()) << name;
    EXPECT_FALSE(is_adapter_name(name)) << name;
  }
  EXPECT_TRUE(is_adapter_name(std::string(128, 'a')));
  EXPECT_FALSE(is_adapter_name(std::string(129, 'a')));
}

TEST(AdapterFlag, WrongPartsAreNamed) {
  EXPECT_EQ(refusal(""), "adapter '': the path is empty; wanted PATH[,alpha=A][,scale=S][,init=FILE]");
  EXPECT_EQ(refusal("a.pth,alfa=2"),
            "adapter 'a.pth,alfa=2': there is no 'alfa'; wanted alpha, scale or init");
  EXPECT_EQ(refusal("a.pth,alpha=2,alpha=2"), "adapter 'a.pth,alpha=2,alpha=2': alpha is given twice");
  EXPECT_EQ(refusal("a.pth,alpha=2,scale=2"),
            "adapter 'a.pth,alpha=2,scale=2': both alpha and scale are given; wanted one");
  for (const std::string_view number : {"", "x", "nan", "inf", "1e7", "2 ", "0x1"}) {
    EXPECT_EQ(refusal("a.pth,scale=" + std::string(number)),
              "adapter 'a.pth,scale=" + std::string(number) + "': scale is '" + std::string(number) +
                  "'; wanted a number from -1000000 to 1000000");
  }
  EXPECT_EQ(refusal("a.pth,init="), "adapter 'a.pth,init=': init is empty; wanted a file");
  EXPECT_EQ(
      refusal("a.pth", true),
      "adapter 'a.pth': the name is ''; wanted NAME=PATH, the name of at most 128 letters, digits, '.', "
      "'_' and '-'");
}

}  // namespace
}  // namespace fulmar
