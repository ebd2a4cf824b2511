// PyTorch files of both forms, right ones and hostile ones.
#include "files/pth.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/file_builders.h"
#include "files/zip.h"

namespace fulmar {
namespace {

using namespace test;
using testing::AllOf, testing::HasSubstr;

const float kTen[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

std::vector<StoredTensor> two_tensors() {
  return {tensor_over("matrix", DType::f32, {2, 3}, kTen), tensor_over("vector", DType::bf16, {4}, kTen)};
}

// A storage of ten floats 0..9 and one tensor over it, as the given tensor claims.
std::string archive_with(PickledTensor tensor) {
  tensor.key = "0";
  if (tensor.name.empty()) tensor.name = "t";
  return zip_of({{"m/data.pkl", state_dict({tensor})},
                 {"m/data/0", std::string(reinterpret_cast<const char*>(kTen), sizeof(kTen))}});
}

std::string archive_around(const std::string& pickle_body) {
  return zip_of({{"m/data.pkl", pickle::whole(pickle_body)}, {"m/data/0", std::string(40, '\0')}});
}

std::string error_of(const std::string& file) {
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  return parts.ok() ? "(no error)" : parts.error().text;
}

std::vector<float> values_of(const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.count()));
  copy_as_f32(tensor, values);
  return values;
}

void expect_two_tensors(const std::string& file) {
  ASSERT_TRUE(looks_like_pth(bytes_of(file)));
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  ASSERT_EQ(parts->tensors.size(), 2u);
  EXPECT_EQ(parts->tensors[0].name, "matrix");
  EXPECT_EQ(parts->tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(values_of(parts->tensors[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(parts->tensors[1].dtype, DType::bf16);
  EXPECT_EQ(gather_contiguous(parts->tensors[1]), gather_contiguous(two_tensors()[1]));
}

TEST(Pth, ZipFormGivesItsTensors) { expect_two_tensors(zip_of(pth_members(two_tensors()))); }
TEST(Pth, Zip64FieldsGiveTheSame) { expect_two_tensors(zip_of(pth_members(two_tensors()), {true, ""})); }
TEST(Pth, AnArchiveCommentIsSkipped) {
  expect_two_tensors(zip_of(pth_members(two_tensors()), {false, "PK or not"}));
}
TEST(Pth, LegacyStreamGivesTheSame) { expect_two_tensors(legacy_stream(two_tensors())); }

TEST(Pth, OffsetsAndStridesAreHonoured) {
  const std::string file = archive_with({.numel = 10, .offset = 2, .shape = {3, 2}, .strides = {1, 3}});
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  EXPECT_EQ(values_of(parts->tensors[0]), (std::vector<float>{2, 5, 3, 6, 4, 7}));
}

TEST(Pth, WrappersAndParametersAreUnwrapped) {
  using namespace pickle;
  const std::string tensor = pickled({.key = "0", .numel = 10, .shape = {10}, .strides = {1}}, false);
  const std::string parameter = global("torch._utils", "_rebuild_parameter") + "(" + tensor + "\x88" +
                                global("collections", "OrderedDict") + ")RtR";
  const std::string file =
      archive_around("}(" + text("epoch") + integer(3) + text("state_dict") + "}(" + text("p") + parameter +
                     text("lr") + "G" + std::string(8, '\0') + "uu");
  const Result<CheckpointParts> parts = read_pth(bytes_of(file));
  ASSERT_TRUE(parts.ok()) << parts.error().text;
  ASSERT_EQ(parts->tensors.size(), 1u);
  EXPECT_EQ(parts->tensors[0].name, "p");
  EXPECT_THAT(parts->remarks, testing::ElementsAre(HasSubstr("'lr' is not a tensor")));
}

TEST(Pth, EveryTruncationIsAnError) {
  for (const std::string& file :
       {zip_of(pth_members(two_tensors())), zip_of(pth_members(two_tensors()), {true, ""}),
        legacy_stream(two_tensors())}) {
    for (size_t size = 0; size < file.size(); size++) {
      EXPECT_FALSE(read_pth(bytes_of(file).first(size)).ok()) << size << " of " << file.size();
    }
  }
}

TEST(Pth, NoChangedByteLeadsOutsideTheFile) {
  for (std::string file : {zip_of(pth_members(two_tensors())), zip_of(pth_members(two_tensors()), {true, ""}),
                           legacy_stream(two_tensors())}) {
    const ByteSpan bytes = bytes_of(file);
    for (char& byte : file) {
      const char before = byte;
      for (const int change : {0x01, 0x80, 0xff}) {
        byte = static_cast<char>(before ^ change);
        const Result<CheckpointParts> parts = read_pth(bytes);
        if (!parts.ok()) continue;
        for (const StoredTensor& tensor : parts->tensors) {
          if (tensor.count() == 0) continue;
          int64_t last = 0;
          for (size_t i = 0; i < tensor.shape.size(); i++) last += (tensor.shape[i] - 1) * tensor.strides[i];
          EXPECT_GE(tensor.data, bytes.data());
          EXPECT_LE(tensor.data + static_cast<size_t>(last + 1) * size_of(tensor.dtype),
                    bytes.data() + bytes.size());
        }
      }
      byte = before;
    }
  }
}

struct Hostile {
  const char* what;
  std::string file;
  const char* complaint;
};

std::vector<Hostile> hostile_archives() {
  const std::vector<Member> good = pth_members(two_tensors());
  const auto changed = [&](auto change) {
    std::vector<Member> members = good;
    change(members);
    return zip_of(members);
  };
  return {
      {"compressed", changed([](auto& m) { m[3].method = 8; }), "is compressed (method 8); wanted stored"},
      {"encrypted", changed([](auto& m) { m[3].flags = 1; }), "is encrypted"},
      {"same name", changed([](auto& m) { m[4].name = m[3].name; }), "two members are called 'model/data/0'"},
      {"stray header", changed([](auto& m) { m[3].shift = 7; }), "no local header"},
      {"byte order", changed([](auto& m) { m[1].content = "big"; }), "byte order is 'big'; wanted 'little'"},
      {"no pickle", changed([](auto& m) { m[0].name = "model/other"; }), "no data.pkl"},
      {"two pickles", changed([](auto& m) { m[2].name = "again/data.pkl"; }), "two data.pkl"},
      {"missing storage", changed([](auto& m) { m[3].name = "model/data/x"; }), "storage '0' is missing"},
      {"short storage", changed([](auto& m) { m[3].content.resize(23); }), "has 23 bytes; wanted 24"},
  };
}

std::vector<Hostile> hostile_tensors() {
  constexpr int64_t kMost = INT64_MAX;
  return {
      {"negative stride", archive_with({.numel = 10, .offset = 9, .shape = {3}, .strides = {-1}}),
       "is negative: -1"},
      {"negative size", archive_with({.numel = 10, .shape = {-3}, .strides = {1}}), "is negative: -3"},
      {"negative offset", archive_with({.numel = 10, .offset = -1, .shape = {3}, .strides = {1}}),
       "outside its storage"},
      {"one too far", archive_with({.numel = 10, .offset = 8, .shape = {3}, .strides = {1}}),
       "outside its storage"},
      {"long stride", archive_with({.numel = 10, .shape = {2}, .strides = {10}}), "outside its storage"},
      {"huge stride", archive_with({.numel = 10, .shape = {3, 3}, .strides = {kMost, kMost}}),
       "outside its storage"},
      {"2^63 - 1 elements", archive_with({.numel = 10, .shape = {kMost}, .strides = {0}}),
       "outside its storage"},
      {"overflowing product", archive_with({.numel = 10, .shape = {kMost, 4}, .strides = {0, 0}}),
       "outside its storage"},
      {"expanded to many", archive_with({.numel = 10, .shape = {1 << 20, 1 << 10}, .strides = {0, 0}}),
       "outside its storage"},
      {"storage of 2^63 - 1", archive_with({.numel = kMost, .shape = {3}, .strides = {1}}),
       "impossible size"},
      {"storage of less than nothing", archive_with({.numel = -10, .shape = {3}, .strides = {1}}),
       "impossible size"},
      {"storage larger than its member", archive_with({.numel = 11, .shape = {3}, .strides = {1}}),
       "has 40 bytes; wanted 44"},
      {"rank 6", archive_with({.numel = 10, .shape = {1, 1, 1, 1, 1, 1}, .strides = {1, 1, 1, 1, 1, 1}}),
       "rank 6"},
      {"ranks differ", archive_with({.numel = 10, .shape = {2, 2}, .strides = {1}}), "2 sizes but 1 strides"},
      {"name with a newline", archive_with({.name = "a\nb", .numel = 10, .shape = {1}, .strides = {1}}),
       "bad tensor name 'a\\x0ab'"},
      {"name that is no UTF-8", archive_with({.name = "\xff", .numel = 10, .shape = {1}, .strides = {1}}),
       "bad tensor name"},
  };
}

std::string repeated(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; i++) out += text;
  return out;
}

std::vector<Hostile> hostile_pickles() {
  using namespace pickle;
  const std::string tensor = pickled({.key = "0", .numel = 10, .shape = {10}, .strides = {1}}, false);
  return {
      {"a command", archive_around(global("posix", "system") + "(" + text("true") + "tR"),
       "global 'posix system' is not allowed"},
      {"an allowed name of another module", archive_around(global("builtins", "OrderedDict") + ")R"),
       "is not allowed"},
      {"a storage type called", archive_around(global("torch", "FloatStorage") + ")R"), "is not allowed"},
      {"INST", archive_around("(i__builtin__\neval\n"), "opcode is not allowed (opcode 0x69 at byte 3)"},
      {"STACK_GLOBAL", archive_around(text("os") + text("system") + "\x93"), "opcode is not allowed"},
      {"protocol 9", zip_of({{"m/data.pkl", "\x80\x09}."}}), "protocol 9; wanted 2 to 4"},
      {"deep nesting", archive_around(repeated("(", 100'000)), "nested deeper than 64"},
      {"deep tuples", archive_around(")" + repeated("\x85", 100'000)), "not a dictionary"},
      {"many values", archive_around(repeated(")", 1'100'000)), "more than"},
      {"many stack entries",
       archive_around(")" + std::string("q\0", 2) + repeated(std::string("h\0", 2), 1'100'000)), "more than"},
      {"memo far away", archive_around(")r" + raw<uint32_t>(0xfffffff0u)), "memo index 4294967280"},
      {"empty memo", archive_around("h\x07"), "memo 7 is empty"},
      {"stack underflow", archive_around("\x87"), "too few values"},
      {"no mark", archive_around("}u"), "finds no mark"},
      {"key without value", archive_around("}(" + text("a") + "u"), "key without a value"},
      {"no STOP", zip_of({{"m/data.pkl", "\x80\x02}"}}), "ends without STOP"},
      {"two results", archive_around("}}"), "STOP with 2 values"},
      {"a list", archive_around("]"), "not a dictionary of tensors"},
      {"no tensors", archive_around("}"), "holds no tensors"},
      {"a dictionary inside itself",
       archive_around("}" + std::string("q\0", 2) + "(" + text("model") + std::string("h\0", 2) + "u"),
       "holds no tensors"},
      {"two of a name", archive_around("}(" + text("a") + tensor + text("a") + tensor + "u"),
       "two tensors are called 'a'"},
      {"text as storage",
       archive_around("}(" + text("a") + global("torch._utils", "_rebuild_tensor_v2") + "(" + text("x") +
                      integer(0) + "))tRu"),
       "has no storage"},
      {"text that runs out", zip_of({{"m/data.pkl", "\x80\x02X\xff\xff\xff\x7f."}}), "is cut short"},
  };
}

std::vector<Hostile> hostile_streams() {
  const std::string good = legacy_stream(two_tensors());
  const auto replaced = [&](std::string_view from, const std::string& to) {
    std::string file = good;
    file.replace(file.find(from), from.size(), to);
    return file;
  };
  const std::string count = raw<int64_t>(6);
  return {
      {"other protocol", replaced(pickle::integer(1001), pickle::integer(1002)),
       "protocol is 1002; wanted 1001"},
      {"big-endian", replaced(pickle::text("little_endian") + "\x88", pickle::text("little_endian") + "\x89"),
       "little-endian"},
      {"other magic", replaced("\x50\x19", "\x50\x18"), "magic number"},
      {"unknown key", replaced("](" + pickle::text("94000"), "](" + pickle::text("94009")),
       "its object does not mention"},
      {"repeated key",
       replaced(pickle::text("94000") + pickle::text("94001") + "e",
                pickle::text("94000") + pickle::text("94000") + "e"),
       "storage '94000'"},
      {"other count", replaced(count, raw<int64_t>(7)), "has 7 elements; wanted 6"},
      {"huge count", replaced(count, raw<int64_t>(INT64_MAX)), "wanted 6"},
  };
}

TEST(Pth, HostileFilesAreRefusedWithTheReason) {
  for (const auto& table : {hostile_archives(), hostile_tensors(), hostile_pickles(), hostile_streams()}) {
    for (const Hostile& hostile : table) {
      EXPECT_THAT(error_of(hostile.file), HasSubstr(hostile.complaint)) << hostile.what;
    }
  }
}

TEST(Pth, ADamagedMemberIsRefusedByNameWithBothSums) {
  const std::string whole = zip_of(pth_members(two_tensors()), {.crc = true});
  expect_two_tensors(whole);
  const auto members = read_zip_directory(bytes_of(whole));
  ASSERT_TRUE(members.ok());
  for (const ZipMember& member : *members) {
    for (const uint64_t at :
         {member.offset, member.offset + member.size / 2, member.offset + member.size - 1}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      EXPECT_THAT(error_of(damaged),
                  AllOf(HasSubstr(fmt::format("member '{}' is damaged: its CRC-32 is ", member.name)),
                        HasSubstr(fmt::format("; wanted {:08x}", member.crc))));
    }
  }
}

// What a local header says beside the directory: method, checksum, both sizes.
TEST(Pth, ALocalHeaderThatDisagreesIsRefused) {
  const std::string whole = zip_of(pth_members(two_tensors()), {.crc = true});
  const auto members = read_zip_directory(bytes_of(whole));
  ASSERT_TRUE(members.ok());
  for (const ZipMember& member : *members) {
    const size_t local = whole.rfind("PK\3\4", member.offset);
    const std::string complaint =
        fmt::format("local header of '{}' at {} disagrees with the directory", member.name, local);
    for (const size_t field : {8, 14, 18, 22}) {
      std::string damaged = whole;
      damaged[local + field + 1] = 0x5A;
      EXPECT_THAT(error_of(damaged), HasSubstr(complaint)) << field;
    }
    std::string stated = whole;
    const std::string size = raw<uint32_t>(static_cast<uint32_t>(member.size));
    stated.replace(local + 14, 12, raw<uint32_t>(member.crc) + size + size);
    expect_two_tensors(stated);
  }
}

// Points the directory's second entry at another local header.
std::string with_second_member_at(std::string file, size_t offset) {
  const size_t entry = file.find("PK\1\2", file.find("PK\1\2") + 1);
  return file.replace(entry + 42, 4, raw<uint32_t>(static_cast<uint32_t>(offset)));
}

TEST(Pth, MembersThatShareBytesAreRefused) {
  // A whole second member lies inside the payload of the first.
  const std::string inner = zip_of({{"b", "12345678"}});
  const std::string local = inner.substr(0, inner.find("PK\1\2"));
  const std::string file = zip_of({{"a", local + local}, {"b", "12345678"}});
  EXPECT_THAT(error_of(with_second_member_at(file, file.find("PK\3\4", 4))),
              HasSubstr("members 'a' and 'b' overlap"));
  EXPECT_THAT(error_of(with_second_member_at(file, 0)), HasSubstr("local header at 0 does not name 'b'"));
}

}  // namespace
}  // namespace fulmar
