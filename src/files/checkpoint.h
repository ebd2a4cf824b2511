// Tensors by name: all that a model ever sees of a file. Knows neither formats nor models.
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

// Returns the row-major strides of a shape, in elements.
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);

// Returns "[64, 128]".
std::string shape_text(std::span<const int64_t> shape);

// Returns "17 bytes", "3.4 MB" or "1.2 GB".
std::string size_text(uint64_t bytes);

// Copies all elements in row-major order as f32, for any strides and type. out.size() is tensor.count().
void copy_as_f32(const StoredTensor& tensor, std::span<float> out);

// Returns all elements in row-major order in their stored type.
std::vector<std::byte> gather_contiguous(const StoredTensor& tensor);

// A token of a vocabulary inside a model file.
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
  // Returns "safetensors, 1.2 GB, official names".
  virtual std::string describe() const = 0;
  // Returns free text of the file itself (the __metadata__ of safetensors); mostly empty.
  virtual const std::map<std::string, std::string>& metadata() const;
  // Returns the file's vocabulary; null if it has none.
  virtual const StoredVocabulary* vocabulary() const { return nullptr; }
  // Returns what a reader found and ignored, one line each.
  virtual const std::vector<std::string>& remarks() const;
  // Releases the memory of a mapped tensor after it was copied elsewhere; it stays readable.
  virtual void release_pages(const StoredTensor&) const {}

  // Returns the tensor of that name, or null. Thread-safe.
  const StoredTensor* find(std::string_view name) const;

 private:
  mutable std::once_flag indexed_;
  mutable std::unordered_map<std::string_view, const StoredTensor*> index_;
};

// The parts of a Checkpoint, filled by readers; `owners` keep the memory of the tensors alive.
struct CheckpointParts {
  std::vector<StoredTensor> tensors;
  std::string description;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> remarks;
  std::shared_ptr<const StoredVocabulary> vocabulary;  // null: none
  std::vector<std::shared_ptr<const MappedFile>>
      files;  // what the tensors are views of; empty: nothing mapped
  std::vector<std::shared_ptr<const void>> owners;
};

std::unique_ptr<Checkpoint> make_checkpoint(CheckpointParts parts);

// Checks a name, which is untrusted and goes into logs and JSON: valid UTF-8 without control characters, at
// most 256 bytes.
Status check_tensor_name(std::string_view name);

// Opens a model or state file of any format, told apart by content (PyTorch zip archive, PyTorch legacy
// stream, safetensors, GGUF, whose first part opens the others), or a folder that holds one model
// (find_model_files). Converts tensors to official names, shapes and orientation. A config.json and a chat
// template beside safetensors become metadata (read_hub_facts).
Result<std::unique_ptr<Checkpoint>> open_checkpoint(const std::filesystem::path& path);

}  // namespace fulmar
