// Every decision about which kernel multiplies, as a table in a file: a change to the rules shows there line
// by line. Needs no GPU. With FULMAR_WRITE_TABLES set, the file is written instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gpu/gemm/kernels.h"
#include "gpu/gemm/layout/packed.h"
#include "support/folders.h"
#include "tensor/format.h"

namespace fulmar {
namespace {

using gpu::Epilogue;
using gpu::Gemm;

constexpr int64_t kWidth = 4096, kHidden = 4 * kWidth, kMostShownRows = 4200;

struct Card {
  const char* name;
  gpu::GemmDevice device;
};
constexpr Card kCards[] = {
    {"9.0", {132, true, true, false}},
    {"9.0 in a fixed order", {132, true, true, true}},
    {"8.9", {128, false, true, false}},
    {"8.9 in a fixed order", {128, false, true, true}},
    {"no matrix units", {104, false, false}},
    {"no matrix units in a fixed order", {104, false, false, true}},
    {"9.0 of 60 SMs", {60, true, true, false}},
};

// A weight's format and what its inputs are.
struct Operands {
  DType weight, in;
  bool float8_rows;
};
std::string name_of(const Operands& operands) {
  return std::string(fulmar::name_of(operands.weight)) + (operands.float8_rows ? " as stored" : "") + " x " +
         std::string(fulmar::name_of(operands.in));
}

Weight weight_of(const Operands& operands, int64_t out, int64_t in, bool transposed = false) {
  Weight weight{operands.weight, out, in};
  weight.group = is_scaled(operands.weight) ? in : 0;
  const bool codes = is_block(operands.weight) || is_scaled(operands.weight);
  if (operands.float8_rows && gpu::suits_float8(operands.weight, out, in, weight.group)) {
    weight.layout = WeightLayout::float8_rows;
  } else if (codes) {
    weight.layout = gpu::code_layout(operands.weight, out, in, weight.group, transposed);
  } else if (transposed) {
    weight.layout = WeightLayout::columns;
  }
  return weight;
}

Gemm product(const Operands& operands, const Weight& weight, Epilogue epilogue = Epilogue::none,
             bool wide = false) {
  const DType to = wide ? DType::f32 : operands.in;
  return {{nullptr, operands.in, 0, weight.in, weight.in},
          weight,
          {nullptr, to, 0, weight.out, weight.out},
          epilogue};
}

// What islands ask for, and what kernels may refuse.
struct Shape {
  const char* name;
  std::vector<Gemm> (*of)(const Operands&);
};
std::vector<Gemm> first_products(const Operands& operands, int64_t width, int wide, int low, int64_t rank) {
  std::vector<Gemm> list(static_cast<size_t>(wide), product(operands, weight_of(operands, width, width)));
  const Gemm path = product(operands, weight_of(operands, rank, width), Epilogue::tanh);
  list.insert(list.end(), static_cast<size_t>(low), path);
  return list;
}
std::vector<Gemm> one(const Operands& operands, int64_t out, int64_t in, bool transposed = false,
                      Epilogue epilogue = Epilogue::none, bool wide = false) {
  return {product(operands, weight_of(operands, out, in, transposed), epilogue, wide)};
}
std::vector<Gemm> strided(std::vector<Gemm> list) {
  for (Gemm& each : list) each.in.stride += 4;
  return list;
}
const Shape kShapes[] = {
    {"key", [](const Operands& o) { return one(o, kHidden, kWidth, false, Epilogue::relu_squared); }},
    {"key of a narrow model",
     [](const Operands& o) { return one(o, 4096, 1024, false, Epilogue::relu_squared); }},
    {"value", [](const Operands& o) { return one(o, kWidth, kHidden); }},
    {"value, transposed", [](const Operands& o) { return one(o, kWidth, kHidden, true); }},
    {"output", [](const Operands& o) { return one(o, kWidth, kWidth); }},
    {"head", [](const Operands& o) { return one(o, 65536, kWidth, false, Epilogue::none, true); }},
    {"three wide, four low-rank", [](const Operands& o) { return first_products(o, kWidth, 3, 4, 96); }},
    {"the same, narrow", [](const Operands& o) { return first_products(o, 2048, 3, 4, 96); }},
    {"five wide", [](const Operands& o) { return first_products(o, kWidth, 5, 0, 0); }},
    {"four low-rank", [](const Operands& o) { return first_products(o, kWidth, 0, 4, 96); }},
    {"two wide", [](const Operands& o) { return first_products(o, kWidth, 2, 0, 0); }},
    {"90 outputs", [](const Operands& o) { return first_products(o, kWidth, 0, 6, 90); }},
    {"96 inputs", [](const Operands& o) { return one(o, 64, 96); }},
    {"output, rows not aligned", [](const Operands& o) { return strided(one(o, kWidth, kWidth)); }},
    {"five wide, rows not aligned",
     [](const Operands& o) { return strided(first_products(o, kWidth, 5, 0, 0)); }},
};

bool storable(const std::vector<Gemm>& list) {
  const int64_t block = format_of(list.front().weight.dtype).block;
  return list.front().weight.in % block == 0;
}

std::string_view chosen(const gpu::GemmDevice& device, std::vector<Gemm>& list, int64_t rows) {
  for (Gemm& each : list) each.in.rows = each.out.rows = rows;
  return gpu::choose_kernel(list, device)->name;
}

// "1 gemv, 2 skinny, 9 library": from how many rows on which kernel.
std::string decisions(const gpu::GemmDevice& device, std::vector<Gemm> list) {
  std::string text, last;
  for (int64_t rows = 1; rows <= kMostShownRows; rows++) {
    const std::string now(chosen(device, list, rows));
    if (now == last) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(rows) + " " + now;
    last = now;
  }
  return text;
}

std::vector<Operands> all_operands() {
  std::vector<Operands> all;
  for (const Format& format : kFormats) {
    const bool weights = is_kernel_float(format.dtype) || is_scaled(format.dtype) || is_block(format.dtype);
    if (!weights) continue;
    for (const DType in : {DType::f16, DType::bf16}) {
      const bool is16 = format.dtype == DType::f16 || format.dtype == DType::bf16;
      if (is16 && format.dtype != in) continue;
      all.push_back({format.dtype, in, false});
      if (format.dtype == DType::f8_e4m3) all.push_back({format.dtype, in, true});
    }
  }
  return all;
}

std::string table() {
  std::ostringstream text;
  for (const Card& card : kCards) {
    text << "# " << card.name << "\n";
    for (const Shape& shape : kShapes) {
      std::map<std::string, std::string> operands_of;  // of a line of decisions
      std::vector<std::string> order;
      for (const Operands& operands : all_operands()) {
        const std::vector<Gemm> list = shape.of(operands);
        if (!storable(list)) continue;
        const std::string line = decisions(card.device, list);
        std::string& names = operands_of[line];
        if (names.empty()) order.push_back(line);
        names += (names.empty() ? "" : ", ") + name_of(operands);
      }
      for (const std::string& line : order) {
        text << shape.name << " | " << operands_of[line] << " | " << line << "\n";
      }
    }
  }
  return text.str();
}

TEST(KernelChoices, AreThoseOfTheTable) {
  const auto path = support::source_folder() / "tests/gpu/vendor/kernel_choices.txt";
  const std::string now = table();
  if (std::getenv("FULMAR_WRITE_TABLES") != nullptr) {
    std::ofstream(path) << now;
    return;
  }
  std::ifstream file(path);
  std::istringstream lines(now);
  ASSERT_TRUE(file.is_open()) << path;
  std::string wanted, found;
  for (int number = 1; std::getline(file, wanted); number++) {
    ASSERT_TRUE(std::getline(lines, found)) << "line " << number << " is missing: " << wanted;
    EXPECT_EQ(found, wanted) << "line " << number;
  }
  EXPECT_FALSE(std::getline(lines, found)) << found;
}

}  // namespace
}  // namespace fulmar
