// The GEMM library's algorithm of each product, kept in a file between starts: candidates are timed once on a
// machine, and two starts give equal bits.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fulmar::gpu {

// What a product's algorithm depends on; `rows` is a bucket's (bucket_rows).
struct GemmKey {
  int64_t rows = 0, in = 0, out = 0;
  int64_t in_stride = 0, out_stride = 0;  // elements
  bool transposed = false;                // the weight
  bool bfloat = false, wide = false;      // in and weight in bf16; out in f32
  int64_t alignment = 0;                  // bytes, the least of all operands
  bool float8 = false;                    // in and weight in E4M3

  auto operator<=>(const GemmKey&) const = default;
};

// Returns the bucket's rows, which share an algorithm: mixed steps have another number nearly every time.
constexpr int64_t bucket_rows(int64_t rows) {
  const int64_t grain = rows <= 32 ? 8 : rows <= 256 ? 32 : rows <= 1024 ? 128 : 1024;
  return (rows + grain - 1) / grain * grain;
}

// Returns the largest number of rows of each bucket, ascending; the last one ends at `most`.
std::vector<int64_t> row_buckets(int64_t most);

// An algorithm in the library's own encoding: opaque bytes that may be stored for the
// same version of the library.
using GemmAlgorithm = std::array<std::byte, 64>;

// Not thread-safe. Without a file nothing is kept beyond this object.
class GemmChoices {
 public:
  // Reads the file. `identity` names the GPU, its driver and the library, in one line; a file of another
  // identity, or an incomplete one, counts as empty.
  GemmChoices(std::filesystem::path file, std::string identity);

  std::optional<GemmAlgorithm> find(const GemmKey&) const;
  // Remembers a choice and replaces the file at once. A failed write is not an error: the next
  // start times the candidates again.
  void keep(const GemmKey&, const GemmAlgorithm&);

 private:
  std::filesystem::path file_;
  std::string identity_;
  std::map<GemmKey, GemmAlgorithm> known_;
};

// Returns the file's text, and its content: nothing if the text is incomplete or of another identity.
std::string write_gemm_choices(std::string_view identity, const std::map<GemmKey, GemmAlgorithm>&);
std::optional<std::map<GemmKey, GemmAlgorithm>> read_gemm_choices(std::string_view text,
                                                                  std::string_view identity);

}  // namespace fulmar::gpu
