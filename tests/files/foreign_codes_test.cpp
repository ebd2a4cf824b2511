// Checkpoints that other programs quantised: bitsandbytes' tensors beside tensors, and .rwkvq archives, right
// ones and broken ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "files/bitsandbytes.h"
#include "files/coded_tensors.h"
#include "files/identify.h"
#include "files/quantised_writers.h"
#include "files/rwkvq.h"
#include "files/safetensors.h"
#include "files/synthetic.h"
#include "support/shared_files.h"

namespace fulmar {
namespace {

using namespace test;
using testing::HasSubstr;

SyntheticSpec spec_of(int version, int64_t heads, DType dtype = DType::f16) {
  SyntheticSpec spec{.version = version, .n_layer = 2, .n_head = heads, .head_size = 32, .vocab = 40};
  spec.n_ffn = 128 * heads;
  spec.dtype = dtype;
  spec.rank_w = spec.rank_a = spec.rank_v = spec.rank_g = spec.rank_mix = 8, spec.rank_decay = 12;
  return spec;
}

Result<std::unique_ptr<Checkpoint>> through_file(const Converted& converted) {
  const TempFile file("", ".safetensors");
  EXPECT_TRUE(write_safetensors(file.path(), converted.tensors).ok());
  return open_checkpoint(file.path());
}

// The square root of the mean square of the difference, over that of the numbers.
double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); i++) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    size += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / size);
}

// The same tensors, large matrices coded as `dtype` and within `most` of the source, the others equal.
void expect_model(const Checkpoint& got, const Checkpoint& official, DType dtype, double most) {
  ASSERT_TRUE(identify(got).ok()) << identify(got).error().text;
  EXPECT_EQ(got.tensors().size(), official.tensors().size());
  for (const StoredTensor& tensor : official.tensors()) {
    const StoredTensor* found = got.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    if (found->dtype == tensor.dtype) {
      EXPECT_EQ(values_of(*found), values_of(tensor)) << tensor.name;
      continue;
    }
    EXPECT_TRUE(is_large_matrix(tensor.name)) << tensor.name;
    EXPECT_EQ(found->dtype, dtype) << tensor.name;
    const double off = distance(values_of(*found), values_of(tensor));
    EXPECT_LT(off, most) << tensor.name;
    EXPECT_GT(off, 0) << tensor.name;
  }
}

TEST(Bitsandbytes, Nf4MatricesKeepTheirCodes) {
  for (const int version : kVersions) {
    const auto official = synthetic_checkpoint(spec_of(version, 4));
    const Converted file = with_matrices(
        *official, [](Converted& out, const StoredTensor& tensor) { add_nf4(out, tensor.name, tensor, {}); });
    const auto read = through_file(file);
    ASSERT_TRUE(read.ok()) << read.error().text;
    expect_model(**read, *official, DType::nf4, 0.12);
    const auto ours = quantise_checkpoint(synthetic_checkpoint(spec_of(version, 4)),
                                          quantise_all(*quantisation_named("nf4")));
    ASSERT_TRUE(ours.ok());
    for (const StoredTensor& tensor : (*ours)->tensors()) {
      EXPECT_EQ(values_of(*(*read)->find(tensor.name)), values_of(tensor)) << tensor.name;
    }
  }
}

TEST(Bitsandbytes, ScalesMayBeQuantisedAndBlocksMaySpanRows) {
  const auto official = synthetic_checkpoint(spec_of(7, 3));  // rows of 96: parts of 32
  for (const Nf4Form form :
       {Nf4Form{64, true}, Nf4Form{128, false}, Nf4Form{4096, true}, Nf4Form{32, false}}) {
    const Converted file = with_matrices(*official, [&](Converted& out, const StoredTensor& tensor) {
      add_nf4(out, tensor.name, tensor, form);
    });
    const auto read = through_file(file);
    ASSERT_TRUE(read.ok()) << read.error().text;
    expect_model(**read, *official, DType::nf4, 0.25);
  }
}

TEST(Bitsandbytes, GoldenFilesComeOutAsTheirNumbers) {
  const support::Json golden = support::read_golden("quant-other");
  if (golden.is_null()) GTEST_SKIP() << "no golden files beside this checkout";
  int seen = 0;
  for (const support::Json& kind : golden["kinds"]) {
    if (!kind["kind"].get<std::string>().starts_with("nf4")) continue;
    seen++;
    Converted file;
    std::string state = R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[64,256])";
    for (const auto& [name, part] : kind["parts"].items()) {
      const auto bytes = support::from_base64(part["base64"].get<std::string>());
      if (name == "nested_offset") {
        float offset = 0;
        std::memcpy(&offset, bytes.data(), sizeof(offset));
        state += fmt::format(R"(,"nested_blocksize":256,"nested_offset":{})", offset);
        continue;
      }
      add_bytes(file, name == "weight" ? "X.weight" : "X.weight." + name,
                part["dtype"] == "uint8" ? DType::u8 : DType::f32, part["shape"].get<std::vector<int64_t>>(),
                bytes.data());
    }
    state += "}";
    add_floats(file, "X.weight.quant_map", {std::begin(kNf4Levels), std::end(kNf4Levels)});
    add_bytes(file, "X.weight.quant_state.bitsandbytes__nf4", DType::u8, {static_cast<int64_t>(state.size())},
              state.data());
    CheckpointParts parts;
    parts.tensors = file.tensors;
    const Status joined = join_bitsandbytes(parts);
    ASSERT_TRUE(joined.ok()) << joined.error().text;
    ASSERT_EQ(parts.tensors.size(), 1u);
    const std::vector<float> got = values_of(parts.tensors[0]);
    const auto rows = support::from_base64(kind["dequantised"]["rows_6_and_8_base64"].get<std::string>());
    ASSERT_EQ(rows.size(), 2 * 256 * sizeof(float));
    EXPECT_EQ(std::memcmp(got.data() + 6 * 256, rows.data(), 1024), 0) << kind["kind"];
    EXPECT_EQ(std::memcmp(got.data() + 8 * 256, rows.data() + 1024, 1024), 0) << kind["kind"];
    for (size_t row = 0; row < 64; row++) {
      double sum = 0;
      for (size_t i = 0; i < 256; i++) sum += static_cast<double>(got[row * 256 + i]);
      EXPECT_NEAR(sum, kind["dequantised"]["row_sums"][row].get<double>(), 1e-5) << kind["kind"] << row;
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST(Bitsandbytes, Int8MatricesKeepTheirCodes) {
  const auto official = synthetic_checkpoint(spec_of(7, 4));
  const Converted file = with_matrices(
      *official, [](Converted& out, const StoredTensor& tensor) { add_int8(out, tensor.name, tensor); });
  const auto read = through_file(file);
  ASSERT_TRUE(read.ok()) << read.error().text;
  expect_model(**read, *official, DType::i8, 0.02);
}

TEST(Bitsandbytes, SmallMatricesBecomeNumbers) {
  const auto official = synthetic_checkpoint(spec_of(7, 4));
  const std::string factor = "blocks.0.att.w1";
  Converted file;
  for (const StoredTensor& tensor : official->tensors()) {
    if (tensor.name == factor) {  // rows of 8: no parts of 32
      add_nf4(file, factor, tensor, {});
    } else if (tensor.name == "blocks.1.att.g2") {  // rows of 128, but no large matrix
      add_nf4(file, tensor.name, tensor, {});
    } else {
      file.add(tensor.name, tensor);
    }
  }
  const auto read = through_file(file);
  ASSERT_TRUE(read.ok()) << read.error().text;
  ASSERT_TRUE(identify(**read).ok()) << identify(**read).error().text;
  for (const std::string& name : {factor, std::string("blocks.1.att.g2")}) {
    const StoredTensor& tensor = *(*read)->find(name);
    EXPECT_EQ(tensor.dtype, DType::f32) << name;
    EXPECT_EQ(tensor.scales, nullptr) << name;
    EXPECT_LT(distance(values_of(tensor), values_of(*official->find(name))), 0.15) << name;
  }
}

// One matrix [4, 64] that `change` breaks.
Status joined(const std::function<void(Converted&)>& change, const Nf4Form& form = {}) {
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); i++) values[i] = std::sin(static_cast<float>(i));
  Converted file;
  add_nf4(file, "X.weight", tensor_over("X.weight", DType::f32, {4, 64}, values.data()), form);
  change(file);
  CheckpointParts parts;
  parts.tensors = file.tensors;
  return join_bitsandbytes(parts);
}

StoredTensor& part(Converted& file, const std::string& name) {
  return *std::find_if(file.tensors.begin(), file.tensors.end(),
                       [&](const StoredTensor& tensor) { return tensor.name == name; });
}

TEST(Bitsandbytes, BrokenOnesGetOneClearErrorEach) {
  const std::string state = "X.weight.quant_state.bitsandbytes__nf4";
  const auto without = [](std::string name) {
    return [name](Converted& file) {
      std::erase_if(file.tensors, [&](const StoredTensor& t) { return t.name == name; });
    };
  };
  const auto said = [&](std::string text) {
    return [&state, text](Converted& file) {
      file.memory.emplace_back(reinterpret_cast<const std::byte*>(text.data()),
                               reinterpret_cast<const std::byte*>(text.data()) + text.size());
      part(file, state) =
          tensor_over(state, DType::u8, {static_cast<int64_t>(text.size())}, file.memory.back().data());
    };
  };
  const auto shaped = [](std::string name, int64_t count) {
    return [=](Converted& file) { part(file, name).shape = {count}, part(file, name).strides = {1}; };
  };
  const auto number = [](std::string name, float value) {
    return [=](Converted& file) {
      for (auto& bytes : file.memory) {
        if (bytes.data() == part(file, name).data) std::memcpy(bytes.data(), &value, sizeof(value));
      }
    };
  };
  const auto form = [](const char* type, int block, const char* shape) {
    return fmt::format(R"({{"quant_type":"{}","blocksize":{},"shape":{}}})", type, block, shape);
  };
  const struct {
    std::function<void(Converted&)> change;
    std::vector<const char*> wanted;
    bool nested = false;
  } cases[] = {
      {without("X.weight"), {"'X.weight' is missing"}},
      {without("X.weight.absmax"), {"'X.weight.absmax' is missing"}},
      {without("X.weight.quant_map"), {"'X.weight.quant_map' is missing"}},
      {without("X.weight.nested_absmax"), {"'X.weight.nested_absmax' is missing"}, true},
      {without("X.weight.nested_quant_map"), {"'X.weight.nested_quant_map' is missing"}, true},
      {without(state), {"X.weight.absmax", "has no", state.c_str()}},
      {shaped("X.weight", 100), {"'X.weight' has 100 bytes", "[4, 64]", "128"}},
      {shaped("X.weight.absmax", 3), {"X.weight.absmax", "3 f32", "4 f32"}},
      {shaped("X.weight.quant_map", 15), {"quant_map", "15", "16"}},
      {number("X.weight.quant_map", -0.9f), {"quant_map", "-0.9", "wanted -1"}},
      {number("X.weight.absmax", NAN), {"X.weight.absmax", "nan"}},
      {number("X.weight.nested_absmax", INFINITY), {"nested_absmax", "inf"}, true},
      {said("not json"), {state.c_str(), "JSON"}},
      {said("[]"), {state.c_str(), "JSON"}},
      {said(form("fp4", 64, "[4,64]")), {"quant_type", "'fp4'", "nf4"}},
      {said(form("nf4", 48, "[4,64]")), {"blocksize", "48", "power of two"}},
      {said(form("nf4", 1 << 20, "[4,64]")), {"blocksize", "1048576", "4096"}},
      {said(form("nf4", 64, "[4,64,1]")), {"shape", "two sides"}},
      {said(form("nf4", 64, "[-4,64]")), {"shape", "-4"}},
      {said(form("nf4", 64, "[4,65]")), {"'X.weight' has 128 bytes", "[4, 65]", "130"}},
      {said(form("nf4", 64, "[2147483647,2147483647]")), {"'X.weight' has 128 bytes"}},
      {said(
           R"({"quant_type":"nf4","blocksize":64,"shape":[4,64],"nested_offset":0.5,"nested_blocksize":128})"),
       {"nested_blocksize", "128", "256"}},
  };
  for (const auto& one : cases) {
    const Status status = joined(one.change, {64, one.nested});
    ASSERT_FALSE(status.ok()) << one.wanted[0];
    for (const char* text : one.wanted) EXPECT_THAT(status.error().text, HasSubstr(text));
  }
  EXPECT_TRUE(joined([](Converted&) {}).ok());
}

TEST(CodedTensors, EveryKindWithScalesBesideItsCodesComesBackFromAFile) {
  for (const char* kind : {"nf4", "int8", "int8_g128", "int4", "fp8"}) {
    const auto made =
        quantise_checkpoint(synthetic_checkpoint(spec_of(7, 4)),
                            quantise_all(*quantisation_named(kind), quantisation_named("int8")));
    ASSERT_TRUE(made.ok());
    const PlainTensors plain = split_codes((*made)->tensors());
    const TempFile file("", ".safetensors");
    ASSERT_TRUE(write_safetensors(file.path(), plain.tensors).ok());
    const auto read = open_checkpoint(file.path());
    ASSERT_TRUE(read.ok()) << read.error().text;
    ASSERT_EQ((*read)->tensors().size(), (*made)->tensors().size()) << kind;
    for (const StoredTensor& tensor : (*made)->tensors()) {
      const StoredTensor* found = (*read)->find(tensor.name);
      ASSERT_NE(found, nullptr) << tensor.name;
      EXPECT_EQ(found->dtype, tensor.dtype) << kind << tensor.name;
      EXPECT_EQ(values_of(*found), values_of(tensor)) << kind << tensor.name;
    }
  }
}

TEST(CodedTensors, BrokenOnesGetOneClearErrorEach) {
  const std::vector<float> values(4 * 96, 0.5f);
  const auto joined_as = [&](DType codes, std::vector<int64_t> shape, DType scale, int64_t scales,
                             float first = 1) {
    CheckpointParts parts;
    std::vector<float> numbers(values);
    numbers[0] = first;
    if (codes != DType::i64)
      parts.tensors.push_back(tensor_over("X.weight", codes, std::move(shape), values.data()));
    parts.tensors.push_back(tensor_over("X.weight.scale", scale, {scales}, numbers.data()));
    const Status status = join_codes(parts);
    return status.ok() ? std::string("joined") : status.error().text;
  };
  EXPECT_THAT(joined_as(DType::i64, {}, DType::f32, 4), HasSubstr("'X.weight' is missing"));
  EXPECT_THAT(joined_as(DType::f16, {4, 96}, DType::f32, 4), HasSubstr("'X.weight' holds f16 [4, 96]"));
  EXPECT_THAT(joined_as(DType::i8, {4, 8, 12}, DType::f32, 4), HasSubstr("wanted a matrix"));
  EXPECT_THAT(joined_as(DType::i8, {4, 96}, DType::f16, 4), HasSubstr("holds f16; wanted f32"));
  EXPECT_THAT(joined_as(DType::i8, {4, 96}, DType::f32, 5), HasSubstr("5 scales for [4, 96]"));
  EXPECT_THAT(joined_as(DType::i8, {4, 96}, DType::f32, 8),
              HasSubstr("8 scales for [4, 96]"));  // groups of 48
  EXPECT_THAT(joined_as(DType::i8, {4, 96}, DType::f32, 4, NAN), HasSubstr("NaN"));
  for (const DType codes : {DType::i8, DType::u8, DType::f8_e4m3}) {
    CheckpointParts bare;
    bare.tensors.push_back(tensor_over("X.weight", codes, {4, 96}, values.data()));
    const Status status = join_codes(bare);
    EXPECT_THAT(status.ok() ? "joined" : status.error().text,
                HasSubstr("without scales; wanted 'X.weight.scale'"));
  }
  for (const int64_t scales : {1, 4, 12}) {
    EXPECT_EQ(joined_as(DType::i8, {4, 96}, DType::f32, scales), "joined") << scales;
    EXPECT_EQ(joined_as(DType::f8_e4m3, {4, 96}, DType::f32, scales), "joined") << scales;
    EXPECT_EQ(joined_as(DType::u8, {4, 48}, DType::f32, scales), "joined") << scales;
  }
}

TEST(Rwkvq, ArchivesKeepTheirCodes) {
  const struct {
    uint16_t group;
    DType dtype;
    double most;
  } forms[] = {{0, DType::i8, 0.02}, {32, DType::i4, 0.2}, {128, DType::i4, 0.25}};
  for (const auto& form : forms) {
    for (const DType plain : {DType::f16, DType::bf16}) {
      const auto official = synthetic_checkpoint(spec_of(7, 4, plain));
      const TempFile file(as_rwkvq(*official, form.group), ".bin");  // recognised by its content
      const auto read = open_checkpoint(file.path());
      ASSERT_TRUE(read.ok()) << read.error().text;
      expect_model(**read, *official, form.dtype, form.most);
    }
  }
}

TEST(Rwkvq, RowsThatEndWithinAGroupBecomeNumbers) {
  const auto official = synthetic_checkpoint(spec_of(7, 5));  // rows of 160: a group of 128 and a rest
  const TempFile file(as_rwkvq(*official, 128), ".rwkvq");
  const auto read = open_checkpoint(file.path());
  ASSERT_TRUE(read.ok()) << read.error().text;
  const StoredTensor &got = *(*read)->find("blocks.1.att.key.weight"),
                     &want = *official->find("blocks.1.att.key.weight");
  EXPECT_EQ(got.dtype, DType::f32);
  EXPECT_LT(distance(values_of(got), values_of(want)), 0.25);
  EXPECT_EQ((*read)->find("blocks.1.ffn.value.weight")->dtype, DType::i4);
}

TEST(Rwkvq, BrokenOnesGetOneClearErrorEach) {
  const std::vector<float> values(4 * 64, 0.5f);
  const StoredTensor matrix = tensor_over("m", DType::f32, {4, 64}, values.data());
  const std::string int8 = rwkvq_matrix(matrix, 0), int4 = rwkvq_matrix(matrix, 32);
  const auto entry = [](uint8_t kind, uint16_t group, std::vector<int64_t> shape, const std::string& data) {
    return rwkvq_entry("m", kind, group, shape, data);
  };
  const auto scales = [](std::string data, uint64_t count, size_t codes) {
    return data.replace(codes, sizeof(count), raw<uint64_t>(count));
  };
  std::string infinite = int8;
  infinite.replace(infinite.size() - 2, 2, raw<uint16_t>(0x7c00));
  std::string counted = entry(2, 0, {4, 64}, int8);
  counted.replace(8, 8, raw<uint64_t>(255));
  const std::string right = entry(2, 0, {4, 64}, int8);
  const struct {
    std::string file;
    const char* wanted;
  } cases[] = {
      {rwkvq_file({right}, 2), "version 2; wanted 1"},
      {rwkvq_file({}), "0 tensors"},
      {rwkvq_file({right}).substr(0, 12), "too few"},
      {rwkvq_file({right, right}), "'m' comes twice"},
      {rwkvq_file({right}) + "x", "1 bytes behind the last"},
      {rwkvq_file({right}).substr(0, 100), "data of m"},
      {rwkvq_file({right}).substr(0, rwkvq_file({right}).size() - 1), "scales of m"},
      {std::string("RWKVQ\0\1\0", 8) + raw<uint32_t>(1) + raw<uint32_t>(0xffffffff) + right,
       "4294967295 tensors"},
      {rwkvq_file({entry(4, 0, {4, 64}, int8)}), "type 4"},
      {rwkvq_file({entry(2, 0, {4, 8, 8}, int8)}), "wanted a matrix"},
      {rwkvq_file({entry(3, 48, {4, 64}, int4)}), "groups of 48; wanted 32 or 128"},
      {rwkvq_file({entry(2, 0, {4, 64}, scales(int8, 5, 256))}), "5 scales; wanted 4"},
      {rwkvq_file({entry(3, 32, {4, 64}, scales(int4, 4, 128))}), "4 scales; wanted 8"},
      {rwkvq_file({entry(2, 0, {4, 64}, infinite)}), "NaN or infinite"},
      {rwkvq_file({counted}), "255 numbers"},
      {rwkvq_file({entry(1, 0, {-4, 64}, int8)}), "[-4, 64]"},
      {rwkvq_file({entry(1, 0, {1, 1, 1, 1, 1, 1}, int8)}), "rank 6"},
      {rwkvq_file({entry(1, 0, {int64_t{1} << 40, int64_t{1} << 20}, int8)}), "data of m"},
  };
  for (const auto& one : cases) {
    const auto read = read_rwkvq(bytes_of(one.file));
    ASSERT_FALSE(read.ok()) << one.wanted;
    EXPECT_THAT(read.error().text, HasSubstr(one.wanted));
  }
  EXPECT_TRUE(read_rwkvq(bytes_of(rwkvq_file({right}))).ok());
}

}  // namespace
}  // namespace fulmar
