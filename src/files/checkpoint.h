// Name -> tensor: all that a model ever sees of a file. Knows neither formats nor models.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "files/bytes.h"
#include "files/mapped_file.h"
#include "tensor/format.h"

namespace fulmar {

// One named tensor inside a checkpoint: a strided view of memory that lives as long as the Checkpoint.
// Every element lies inside that memory, and the number of elements fits an int64_t.
struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;       // outermost first, rank 0..5
  std::vector<int64_t> strides;     // in elements, same rank, >= 0
  const std::byte* data = nullptr;  // element (0, 0, ..); alignment: any
  const float* scales = nullptr;    // of formats with scales beside their codes: [rows, cols / group]
  int64_t group = 0;                // weights of a row that share a scale

  int64_t count() const;    // product of shape
  bool contiguous() const;  // row-major without gaps
  size_t bytes() const { return bytes_for(dtype, count()); }
};

// Row-major strides of a shape.
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);

// "[64, 128]"
std::string shape_text(std::span<const int64_t> shape);

// "17 bytes", "3.4 MB", "1.2 GB"
std::string size_text(uint64_t bytes);

// All elements in row-major order as f32, whatever the strides and the type. out.size() is tensor.count().
void copy_as_f32(const StoredTensor& tensor, std::span<float> out);

// All elements in row-major order in their stored type.
std::vector<std::byte> gather_contiguous(const StoredTensor& tensor);

// One token of a vocabulary that lies in a model file.
struct StoredToken {
  int32_t id = 0;
  std::string bytes;  // at least one, distinct
};
using StoredVocabulary = std::vector<StoredToken>;

class Checkpoint {
 public:
  Checkpoint() = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  virtual ~Checkpoint() = default;

  virtual const std::vector<StoredTensor>& tensors() const = 0;  // file order
  // "safetensors, 1.2 GB, official names"
  virtual std::string describe() const = 0;
  // Free text of the file itself (the __metadata__ of safetensors); mostly empty.
  virtual const std::map<std::string, std::string>& metadata() const;
  // Null where the file brings none.
  virtual const StoredVocabulary* vocabulary() const { return nullptr; }
  // What a reader found and left out, one line each.
  virtual const std::vector<std::string>& remarks() const;
  // Lets the memory of a mapped tensor go after it was copied elsewhere; it stays readable.
  virtual void release_pages(const StoredTensor&) const {}

  // Null when absent. Safe from several threads.
  const StoredTensor* find(std::string_view name) const;

 private:
  mutable std::once_flag indexed_;
  mutable std::unordered_map<std::string_view, const StoredTensor*> index_;
};

// What a Checkpoint consists of. Readers fill it; `owners` keep the memory behind the tensors alive.
struct CheckpointParts {
  std::vector<StoredTensor> tensors;
  std::string description;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> remarks;
  std::shared_ptr<const StoredVocabulary> vocabulary;  // null: none
  std::shared_ptr<const MappedFile> file;              // null when nothing is mapped
  std::vector<std::shared_ptr<const void>> owners;
};

std::unique_ptr<Checkpoint> make_checkpoint(CheckpointParts parts);

// Names come from strangers and go into logs and JSON: valid UTF-8 without control characters, at most 256
// bytes.
Status check_tensor_name(std::string_view name);

// Opens a model or state file whatever its format (PyTorch zip archive, PyTorch legacy stream, safetensors,
// GGUF, of which the first part opens the others; told apart by content) and gives its tensors official
// names, shapes and orientation.
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& path);

}  // namespace fulmar
