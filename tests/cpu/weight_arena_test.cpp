// Memory for weights: aligned, apart from each other, kept until the end.
#include "cpu/weight_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace fulmar {
namespace {

TEST(WeightArena, PiecesAreAlignedAndApart) {
  WeightArena arena;
  std::vector<std::byte*> pieces;
  const std::vector<size_t> sizes = {1, 64, 100'000, 40 << 20, 3, 31 << 20, 5};
  for (size_t i = 0; i < sizes.size(); i++) {
    const auto piece = arena.take(sizes[i]);
    ASSERT_TRUE(piece.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*piece) % 64, 0u);
    std::memset(*piece, static_cast<int>(i + 1), sizes[i]);
    pieces.push_back(*piece);
  }
  for (size_t i = 0; i < sizes.size(); i++) {
    EXPECT_TRUE(std::all_of(pieces[i], pieces[i] + sizes[i], [&](std::byte b) {
      return b == static_cast<std::byte>(i + 1);
    })) << i;
  }
}

TEST(WeightArena, WhatCannotBeHadIsAnError) {
  WeightArena arena;
  for (const size_t bytes : {std::numeric_limits<size_t>::max(), size_t{1} << 60}) {
    const auto piece = arena.take(bytes);
    ASSERT_FALSE(piece.ok());
    EXPECT_EQ(piece.error().kind, ErrorKind::resource);
  }
  EXPECT_TRUE(arena.take(10).ok());
}

}  // namespace
}  // namespace fulmar
