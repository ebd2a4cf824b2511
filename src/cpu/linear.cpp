// Cuts products into pieces of about equal cost and spreads them over the pool.
#include "cpu/linear.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/check.h"
#include "cpu/interleaved.h"
#include "cpu/linear_amx.h"
#include "cpu/linear_coded.h"
#include "cpu/linear_decoded.h"
#include "cpu/linear_dot.h"
#include "cpu/linear_panel.h"
#include "cpu/linear_sparse.h"
#include "cpu/linear_way.h"
#include "cpu/transposed.h"

namespace fulmar {
namespace {

constexpr size_t kMostTasks = 16;                   // that share a parallel section
constexpr int64_t kPieceBytes = 16 * 1024;          // least bytes of weights of a piece of dot products
constexpr int64_t kManyRowsPieceBytes = 64 * 1024;  // the same, with more than kMostDotRows rows
constexpr int64_t kLeastPieces = 8;                 // of a product with many outputs
constexpr int64_t kDotTile = 4;                     // outputs; pieces begin at whole register tiles
constexpr int64_t kMostPackedRows = 576;            // packed or rounded at a time; bounds the workspace
constexpr int64_t kPackedAlone = 16 * 1024;   // numbers that one thread packs faster than two can be started
constexpr int64_t kPreparedAlone = 8 * 1024;  // the same, for rounding or the search for zeros
constexpr int64_t kPanelPiecesPerThread = 4;
constexpr int64_t kSmallestPanelOutputs = 16;

int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

void check_task(const LinearTask& task) {
  const Weight& weight = *task.weight;
  FULMAR_CHECK(task.in.dtype == DType::f32 && task.out.dtype == DType::f32);
  FULMAR_CHECK(task.in.cols == weight.in && task.out.cols == weight.out && task.in.rows == task.out.rows);
}

LinearWay way_of(const LinearTask& task, const LinearMode& mode) {
  return linear_way(task.in.rows, *task.weight, mode);
}

// ---- few rows, codes, and zeros

// The way of a product, and its input in the form that this way reads.
struct PreparedTask {
  LinearWay way = LinearWay::dot;
  const float* in = nullptr;  // rounded, or the nonzeros; null: unchanged
};

// A product and the pieces its outputs are cut into.
struct DotPieces {
  DotProduct product;
  PreparedTask prepared;
  CodedActivations activations = CodedActivations::bits22;
  int64_t outputs = 0;
  int64_t outputs_per_piece = 0;
  int64_t first_piece = 0;  // number of the first, counted over all products
};

int64_t dot_outputs_per_piece(const Weight& weight, int64_t rows) {
  const int64_t row_bytes = static_cast<int64_t>(bytes_for(weight.dtype, weight.in));
  // With many rows, these are read again for each piece.
  const int64_t piece_bytes = rows > kMostDotRows ? kManyRowsPieceBytes : kPieceBytes;
  const int64_t outputs = std::min(piece_bytes / std::max<int64_t>(1, row_bytes), weight.out / kLeastPieces);
  if (weight.by_input()) return kStripOutputs;
  const int64_t tile = weight.layout == WeightLayout::tiles ? kDecodedOutputs : kDotTile;
  return std::max<int64_t>(1, divide_up(outputs, tile)) * tile;
}

DotPieces dot_pieces(const LinearTask& task, const LinearMode& mode, const PreparedTask& prepared,
                     int64_t first_piece) {
  const DotProduct product{.dtype = task.weight->dtype,
                           .weight = static_cast<const std::byte*>(task.weight->data),
                           .scales = task.weight->scales,
                           .group = task.weight->group,
                           .depth = task.weight->in,
                           .rows = task.in.rows,
                           .in = task.in.as<const float>(),
                           .in_stride = task.in.stride,
                           .out = task.out.as<float>(),
                           .out_stride = task.out.stride,
                           .one_order = mode.order == LinearOrder::fixed,
                           .transposed = task.weight->by_input()};
  return {product,
          prepared,
          mode.activations,
          task.weight->out,
          dot_outputs_per_piece(*task.weight, task.in.rows),
          first_piece};
}

CodedProduct coded_product(const DotPieces& pieces) {
  const DotProduct& p = pieces.product;
  return {.dtype = p.dtype,
          .activations = pieces.activations,
          .weight = p.weight,
          .scales = p.scales,
          .group = p.group,
          .depth = p.depth,
          .rows = p.rows,
          .in = pieces.prepared.in,
          .out = p.out,
          .out_stride = p.out_stride};
}

SparseProduct sparse_product(const DotPieces& pieces) {
  const DotProduct& p = pieces.product;
  return {.dtype = p.dtype,
          .weight = p.weight,
          .scales = p.scales,
          .group = p.group,
          .depth = p.depth,
          .rows = p.rows,
          .in = pieces.prepared.in,
          .out = p.out,
          .out_stride = p.out_stride,
          .one_order = p.one_order};
}

void run_dot_pieces(std::span<const DotPieces> products, int64_t begin, int64_t end) {
  for (const DotPieces& p : products) {
    const int64_t first = std::max(begin - p.first_piece, int64_t{0}) * p.outputs_per_piece;
    const int64_t last = std::min((end - p.first_piece) * p.outputs_per_piece, p.outputs);
    if (first >= last) continue;
    switch (p.prepared.way) {
      case LinearWay::sparse:
        sparse_outputs(sparse_product(p), first, last);
        break;
      case LinearWay::coded:
        coded_outputs(coded_product(p), first, last);
        break;
      case LinearWay::decoded:
        decoded_outputs(p.product, first, last);
        break;
      case LinearWay::dot:
      case LinearWay::panels:
        dot_outputs(p.product, first, last);
    }
  }
}

// Returns the floats of a prepared row of a task's input.
int64_t prepared_row_floats(const LinearTask& task, LinearWay way, const LinearMode& mode) {
  if (way == LinearWay::sparse) return nonzeros_floats(task.in.cols);
  return way == LinearWay::coded ? rounded_row_floats(mode.activations, task.in.cols) : 0;
}

// Writes the prepared rows of a task's input to `to`, which has room for `stride` floats of each; returns how
// many numbers are nonzero, where the way asks for them.
int64_t prepare_rows(ThreadPool& pool, const LinearTask& task, LinearWay way, const LinearMode& mode,
                     float* to, int64_t stride) {
  const Tensor in = task.in;
  const bool alone = in.rows * in.cols <= kPreparedAlone;
  std::atomic<int64_t> nonzeros = 0;
  pool.parallel_for(in.rows, alone ? in.rows : 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (way == LinearWay::sparse) {
        nonzeros += find_nonzeros(in.row<float>(r), in.cols, to + r * stride);
      } else {
        round_row({task.weight->dtype, mode.activations, in.cols, in.rows}, r, in.row<float>(r), to);
      }
    }
  });
  return nonzeros;
}

// Chooses the tasks' ways and prepares their inputs, one after the other.
std::array<PreparedTask, kMostTasks> prepare_inputs(ThreadPool& pool, std::span<const LinearTask> tasks,
                                                    const LinearMode& mode) {
  std::array<PreparedTask, kMostTasks> prepared;
  int64_t floats = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    prepared[i].way = way_of(tasks[i], mode);
    floats += tasks[i].in.rows * prepared_row_floats(tasks[i], prepared[i].way, mode);
  }
  if (floats == 0) return prepared;
  float* to = pool.workspace(static_cast<size_t>(floats)).data();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const LinearTask& task = tasks[i];
    const int64_t stride = prepared_row_floats(task, prepared[i].way, mode);
    if (stride == 0 || task.in.rows == 0) continue;
    prepared[i].in = to;
    const auto nonzeros = static_cast<double>(prepare_rows(pool, task, prepared[i].way, mode, to, stride));
    const double zeros = 1 - nonzeros / static_cast<double>(task.in.rows * task.in.cols);
    prepared[i].way = linear_way(task.in.rows, *task.weight, mode, zeros);
    to += task.in.rows * stride;
  }
  return prepared;
}

// ---- many rows

// The form of a packed product: linear_panel.h's or linear_amx.h's.
struct PanelForm {
  int64_t row_tile, most_rows, most_outputs;  // rows packed together; of a block
  int64_t packed_floats;
  void (*pack)(const BlockedProduct&, int64_t row, int64_t first, int64_t last);
  void (*multiply)(const BlockedProduct&, const PanelBlock&);
  // True if a single tile of rows uses widened weights too little for them to leave the first level.
  bool small_blocks_for_one_tile;
};

PanelForm panel_form(const LinearTask& task, const LinearMode& mode, const BlockedProduct& p) {
  if (goes_by_amx(*task.weight, mode)) {
    return {kAmxRowTile, amx_block_rows(p.depth, p.parts),
            kAmxOutputs, amx_packed_floats(p.rows, p.depth, p.parts),
            pack_amx,    multiply_amx,
            false};
  }
  constexpr int64_t kLineFloats = 16;  // the next product's input begins at a whole line
  const int64_t floats = divide_up(panel_row_count(p.rows) * p.depth, kLineFloats) * kLineFloats;
  return {panel_row_tile(), kPanelRows, kPanelOutputs, floats, pack_panel, multiply_panel, true};
}

// A product, how its input is cut for packing and how its output is cut into blocks.
struct PanelPieces {
  BlockedProduct product;
  PanelForm form;
  int64_t outputs = 0;
  int64_t depth_pieces = 0;  // packing pieces of each tile of rows
  int64_t first_pack = 0;    // number of the first, counted over all products
  int64_t rows_per_block = 0;
  int64_t outputs_per_block = 0;
  int64_t output_blocks = 0;
  int64_t first_block = 0;  // number of the first, counted over all products

  int64_t packs() const { return divide_up(product.rows, form.row_tile) * depth_pieces; }
  int64_t blocks() const { return divide_up(product.rows, rows_per_block) * output_blocks; }
};

PanelPieces panel_pieces(const LinearTask& task, int threads, const LinearMode& mode) {
  PanelPieces p;
  p.product = {.dtype = task.weight->dtype,
               .weight = static_cast<const std::byte*>(task.weight->data),
               .scales = task.weight->scales,
               .group = task.weight->group,
               .depth = task.weight->in,
               .rows = task.in.rows,
               .in = task.in.as<const float>(),
               .in_stride = task.in.stride,
               .out = task.out.as<float>(),
               .out_stride = task.out.stride,
               .parts = static_cast<int>(mode.activations),
               .transposed = task.weight->by_input()};
  p.form = panel_form(task, mode, p.product);
  p.outputs = task.weight->out;
  p.depth_pieces = divide_up(p.product.depth, kPanelDepth);
  const int64_t tiles = divide_up(p.product.rows, p.form.row_tile);
  const int64_t row_blocks = divide_up(p.product.rows, p.form.most_rows);
  p.rows_per_block = divide_up(tiles, row_blocks) * p.form.row_tile;
  // Small blocks where there are few of them, so that all threads have work.
  const bool few = row_blocks * (p.outputs / p.form.most_outputs) < kPanelPiecesPerThread * threads;
  const bool small = few || (tiles == 1 && p.form.small_blocks_for_one_tile);
  p.outputs_per_block = small ? kSmallestPanelOutputs : p.form.most_outputs;
  p.output_blocks = divide_up(p.outputs, p.outputs_per_block);
  return p;
}

void pack_pieces(std::span<const PanelPieces> products, int64_t begin, int64_t end) {
  for (const PanelPieces& p : products) {
    const int64_t last = std::min(end - p.first_pack, p.packs());
    for (int64_t i = std::max(begin - p.first_pack, int64_t{0}); i < last; ++i) {
      const int64_t first = i % p.depth_pieces * kPanelDepth;
      p.form.pack(p.product, i / p.depth_pieces * p.form.row_tile, first,
                  std::min(first + kPanelDepth, p.product.depth));
    }
  }
}

void multiply_blocks(std::span<const PanelPieces> products, int64_t begin, int64_t end) {
  for (const PanelPieces& p : products) {
    const int64_t last = std::min(end - p.first_block, p.blocks());
    for (int64_t i = std::max(begin - p.first_block, int64_t{0}); i < last; ++i) {
      const int64_t row = i / p.output_blocks * p.rows_per_block;
      const int64_t output = i % p.output_blocks * p.outputs_per_block;
      p.form.multiply(p.product, {row, std::min(row + p.rows_per_block, p.product.rows), output,
                                  std::min(output + p.outputs_per_block, p.outputs)});
    }
  }
}

// Computes tasks of at most kMostPackedRows rows.
void multiply_packed(ThreadPool& pool, std::span<const LinearTask> tasks, const LinearMode& mode) {
  std::array<PanelPieces, kMostTasks> storage;
  int64_t packs = 0, blocks = 0, floats = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    storage[i] = panel_pieces(tasks[i], pool.size(), mode);
    storage[i].first_pack = packs;
    storage[i].first_block = blocks;
    packs += storage[i].packs();
    blocks += storage[i].blocks();
    floats += storage[i].form.packed_floats;
  }
  float* packed = pool.workspace(static_cast<size_t>(floats)).data();
  for (size_t i = 0; i < tasks.size(); ++i) {
    storage[i].product.packed = packed;
    packed += storage[i].form.packed_floats;
  }
  const auto products = std::span<const PanelPieces>(storage).first(tasks.size());
  pool.parallel_for(packs, floats <= kPackedAlone ? packs : 1,
                    [products](int64_t begin, int64_t end) { pack_pieces(products, begin, end); });
  pool.parallel_for(blocks, 1,
                    [products](int64_t begin, int64_t end) { multiply_blocks(products, begin, end); });
}

// Computes tasks of few rows; dense inputs of transposed weights may go on to the path of many.
void multiply_few(ThreadPool& pool, std::span<const LinearTask> tasks, const LinearMode& mode) {
  std::array<DotPieces, kMostTasks> storage;
  std::array<LinearTask, kMostTasks> dense;
  const std::array<PreparedTask, kMostTasks> prepared = prepare_inputs(pool, tasks, mode);
  int64_t pieces = 0;
  size_t count = 0, packed = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (prepared[i].way == LinearWay::panels) {
      dense[packed++] = tasks[i];
      continue;
    }
    const DotPieces& one = storage[count++] = dot_pieces(tasks[i], mode, prepared[i], pieces);
    pieces += divide_up(one.outputs, one.outputs_per_piece);
  }
  const auto products = std::span<const DotPieces>(storage).first(count);
  pool.parallel_for(pieces, 1,
                    [products](int64_t begin, int64_t end) { run_dot_pieces(products, begin, end); });
  if (packed > 0) multiply_packed(pool, std::span(dense).first(packed), mode);
}

// Calls body(parts) with at most kMostPackedRows rows of each task at a time.
template <class Body>
void for_row_parts(std::span<const LinearTask> tasks, const Body& body) {
  int64_t most_rows = 0;
  for (const LinearTask& task : tasks) most_rows = std::max(most_rows, task.in.rows);
  for (int64_t first = 0; first < most_rows; first += kMostPackedRows) {
    std::array<LinearTask, kMostTasks> parts;
    size_t count = 0;
    for (const LinearTask& task : tasks) {
      const int64_t rows = std::min(task.in.rows - first, kMostPackedRows);
      if (rows <= 0) continue;
      parts[count++] = {task.in.slice_rows(first, rows), task.weight, task.out.slice_rows(first, rows)};
    }
    body(std::span(parts).first(count));
  }
}

}  // namespace

void linear_many(ThreadPool& pool, std::span<const LinearTask> tasks, const LinearMode& mode) {
  for (const LinearTask& task : tasks) check_task(task);
  for (size_t i = 0; i < tasks.size(); i += kMostTasks) {
    std::array<LinearTask, kMostTasks> group;
    const auto part = tasks.subspan(i, std::min(kMostTasks, tasks.size() - i));
    const auto is_few = [&](const LinearTask& task) { return way_of(task, mode) != LinearWay::panels; };
    const auto middle = std::copy_if(part.begin(), part.end(), group.begin(), is_few);
    const auto last = std::remove_copy_if(part.begin(), part.end(), middle, is_few);
    for_row_parts({group.begin(), middle}, [&](auto parts) { multiply_few(pool, parts, mode); });
    for_row_parts({middle, last}, [&](auto parts) { multiply_packed(pool, parts, mode); });
  }
}

void linear(ThreadPool& pool, Tensor in, const Weight& weight, Tensor out, const LinearMode& mode) {
  const LinearTask task{in, &weight, out};
  linear_many(pool, {&task, 1}, mode);
}

}  // namespace fulmar
