// A repository of every form answers like the same weights as a .pth file: equal bits.
#include <gtest/gtest.h>

#include "cpu/cpu_ops.h"
#include "files/repository_writer.h"
#include "files/synthetic.h"
#include "support/model_rig.h"

namespace fulmar {
namespace {

using namespace test;

const std::vector<int32_t> kTokens = {3, 17, 0, 39, 5, 5, 22};

class Repository : public testing::Test {
 protected:
  std::vector<float> logits_of(const std::filesystem::path& path) {
    auto opened = open_checkpoint(path);
    if (!opened.ok()) {
      ADD_FAILURE() << opened.error().text;
      return {};
    }
    support::ModelRig rig(std::move(*opened), *ops_);
    return rig.loaded() ? rig.feed(0, kTokens) : std::vector<float>();
  }

  // The official tensors with every row of the embedding normed, without ln0.
  std::unique_ptr<Checkpoint> with_fused_embedding() {
    const StoredTensor& table = *official_->find("emb.weight");
    const int64_t rows = table.shape[0], cols = table.shape[1];
    std::vector<float> weight(static_cast<size_t>(cols)), bias(weight.size());
    copy_as_f32(*official_->find("blocks.0.ln0.weight"), weight);
    copy_as_f32(*official_->find("blocks.0.ln0.bias"), bias);
    std::vector<float> raw(static_cast<size_t>(rows * cols));
    copy_as_f32(table, raw);
    normed_.resize(raw.size());
    const auto matrix = [](std::vector<float>& data, int64_t r, int64_t c) {
      return Tensor{data.data(), DType::f32, r, c, c};
    };
    ops_->norm(matrix(raw, rows, cols), {matrix(weight, 1, cols), matrix(bias, 1, cols)},
               matrix(normed_, rows, cols));
    CheckpointParts parts;
    for (StoredTensor tensor : official_->tensors()) {
      if (tensor.name == "emb.weight") tensor.data = reinterpret_cast<const std::byte*>(normed_.data());
      if (tensor.name.find("ln0") == std::string::npos) parts.tensors.push_back(std::move(tensor));
    }
    return make_checkpoint(std::move(parts));
  }

  std::unique_ptr<Ops> ops_ = make_cpu_ops({.threads = 1});
  std::unique_ptr<Checkpoint> official_ = synthetic_checkpoint({.version = 7,
                                                                .n_layer = 3,
                                                                .n_head = 2,
                                                                .head_size = 16,
                                                                .vocab = 40,
                                                                .rank_w = 8,
                                                                .rank_a = 4,
                                                                .rank_v = 12,
                                                                .rank_g = 20});
  std::vector<float> normed_;
};

TEST_F(Repository, EveryFormAnswersLikeThePth) {
  const TempFile pth(zip_of(pth_members(official_->tensors())), ".pth");
  const std::vector<float> wanted = logits_of(pth.path());
  ASSERT_EQ(wanted.size(), 40u);
  for (const std::string prefix : {"model.", "rwkv7."}) {
    for (const size_t shards : {1, 4}) {
      const TempFolder plain, fused;
      write_repository(plain, *official_, {.prefix = prefix, .shards = shards});
      EXPECT_EQ(logits_of(plain.path()), wanted) << prefix << shards;
      write_repository(fused, *with_fused_embedding(), {.prefix = prefix, .shards = shards, .fused = true});
      EXPECT_EQ(logits_of(fused.path()), wanted) << prefix << shards << " fused";
    }
  }
  const TempFolder fla;
  write_shards(fla, as_fla7(*official_, true), 2, true);
  EXPECT_EQ(logits_of(fla.path()), wanted);
}

TEST_F(Repository, UnusedValuesOfTheFirstBlockMayBeThere) {
  const TempFolder without, with;
  write_repository(without, *official_, {});
  CheckpointParts parts;
  std::vector<float> unused(32 * 12, 7.0f);
  parts.tensors = official_->tensors();
  std::erase_if(parts.tensors, [](const StoredTensor& t) {
    return t.name.starts_with("blocks.0.att.v") && t.name.find("value") == std::string::npos;
  });
  parts.tensors.push_back(tensor_over("blocks.0.att.v0", DType::f32, {1, 1, 32}, unused.data()));
  parts.tensors.push_back(tensor_over("blocks.0.att.v1", DType::f32, {32, 12}, unused.data()));
  parts.tensors.push_back(tensor_over("blocks.0.att.v2", DType::f32, {12, 32}, unused.data()));
  write_repository(with, *make_checkpoint(std::move(parts)), {.first_values = true});
  EXPECT_EQ(logits_of(with.path()), logits_of(without.path()));
}

}  // namespace
}  // namespace fulmar
