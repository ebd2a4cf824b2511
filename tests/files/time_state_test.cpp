// Tuned states come out as [head][value][key] whatever order the file has.
#include "files/time_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "files/file_builders.h"
#include "files/safetensors.h"

namespace fulmar {
namespace {

using namespace test;
using testing::HasSubstr;

ModelConfig two_layers() {
  ModelConfig config;
  config.version = 7;
  config.n_layer = 2;
  config.n_embd = 4;
  config.n_head = 2;
  config.head_size = 2;
  return config;
}

const std::vector<float> kFirst = {0, 1, 2, 3, 4, 5, 6, 7}, kSecond = {10, 11, 12, 13, 14, 15, 16, 17};
const std::vector<float> kFirstSwapped = {0, 2, 1, 3, 4, 6, 5, 7};

std::vector<StoredTensor> good_state() {
  return {tensor_over("blocks.0.att.time_state", DType::f32, {2, 2, 2}, kFirst.data()),
          tensor_over("blocks.1.att.time_state", DType::f32, {2, 2, 2}, kSecond.data())};
}

TEST(TimeState, TheContainerDecidesTheOrder) {
  const TempFile pth(zip_of(pth_members(good_state())), ".pth"), web("", ".st"), plain("", ".safetensors");
  ASSERT_TRUE(write_safetensors(web.path(), good_state()).ok());
  ASSERT_TRUE(write_safetensors(plain.path(), good_state()).ok());
  for (const auto& [path, wanted] :
       {std::pair(pth.path(), kFirst), {web.path(), kFirstSwapped}, {plain.path(), kFirst}}) {
    const Result<TimeState> state = read_time_state(path, two_layers());
    ASSERT_TRUE(state.ok()) << state.error().text;
    ASSERT_EQ(state->size(), 2u);
    EXPECT_EQ(state->at(0), wanted) << path;
  }
}

TEST(TimeState, TheCallerMayOverrideTheOrder) {
  const TempFile pth(zip_of(pth_members(good_state())), ".pth");
  const Result<TimeState> state = read_time_state(pth.path(), two_layers(), TimeStateOrder::key_major);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->at(0), kFirstSwapped);
}

std::string error_of(std::vector<StoredTensor> tensors) {
  CheckpointParts parts;
  parts.tensors = std::move(tensors);
  const Result<TimeState> state =
      read_time_state(*make_checkpoint(std::move(parts)), two_layers(), TimeStateOrder::value_major);
  return state.ok() ? "(no error)" : state.error().text;
}

TEST(TimeState, WhatDoesNotFitTheModelIsRefused) {
  std::vector<StoredTensor> state = good_state();
  EXPECT_EQ(error_of(state), "(no error)");
  state.pop_back();
  EXPECT_THAT(error_of(state),
              HasSubstr("state of layer 1 is missing (blocks.1.att.time_state [2, 2, 2]); the model has 2"));
  state = good_state();
  state.push_back(tensor_over("blocks.2.att.time_state", DType::f32, {2, 2, 2}, kFirst.data()));
  EXPECT_THAT(error_of(state), HasSubstr("states of 3 layers; the model has 2"));
  state = good_state();
  state[1].shape = {1, 2, 4};
  state[1].strides = {8, 4, 1};
  EXPECT_THAT(error_of(state), HasSubstr("has shape [1, 2, 4]; the model wants [2, 2, 2]"));
  state = good_state();
  state[0].dtype = DType::i32;
  EXPECT_THAT(error_of(state), HasSubstr("has type i32"));
  state = good_state();
  state.push_back(tensor_over("blocks.0.att.time_offset", DType::f32, {4}, kFirst.data()));
  EXPECT_THAT(error_of(state), HasSubstr("time_offset belongs to another family"));
  const std::vector<float> bad(8, std::numeric_limits<float>::quiet_NaN());
  state = good_state();
  state[1].data = reinterpret_cast<const std::byte*>(bad.data());
  EXPECT_THAT(error_of(state), HasSubstr("not finite"));
  EXPECT_THAT(error_of({tensor_over("emb.weight", DType::f32, {2, 4}, kFirst.data())}),
              HasSubstr("holds no tuned state"));
}

}  // namespace
}  // namespace fulmar
