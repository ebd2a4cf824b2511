// Cuts products into pieces of about equal cost and spreads them over the pool.
#include "cpu/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cpu/linear_dot.h"

namespace fulmar {
namespace {

constexpr size_t kMostTasks = 16;           // that share one section
constexpr int64_t kPieceBytes = 16 * 1024;  // weights of the smallest piece worth handing out
constexpr int64_t kOutputsMultiple = 4;     // pieces begin at whole register tiles

// A product and the pieces its outputs are cut into.
struct PiecedDot {
  DotProduct product;
  int64_t outputs = 0;
  int64_t outputs_per_piece = 0;
  int64_t first_piece = 0;  // among the pieces of all products
};

void check_task(const LinearTask& task) {
  const Weight& weight = *task.weight;
  FULMAR_CHECK(task.in.dtype == DType::f32 && task.out.dtype == DType::f32);
  FULMAR_CHECK(task.in.cols == weight.in && task.out.cols == weight.out && task.in.rows == task.out.rows);
  FULMAR_CHECK(!weight.transposed);
}

DotProduct dot_product(const LinearTask& task) {
  return {.kind = task.weight->kind,
          .weight = static_cast<const std::byte*>(task.weight->data),
          .depth = task.weight->in,
          .rows = task.in.rows,
          .in = task.in.as<const float>(),
          .in_stride = task.in.stride,
          .out = task.out.as<float>(),
          .out_stride = task.out.stride};
}

int64_t outputs_per_piece(const Weight& weight) {
  const int64_t bytes =
      std::max<int64_t>(1, weight.in * static_cast<int64_t>(bytes_per_parameter(weight.kind)));
  const int64_t outputs = std::max<int64_t>(1, kPieceBytes / bytes);
  return (outputs + kOutputsMultiple - 1) / kOutputsMultiple * kOutputsMultiple;
}

void run_pieces(std::span<const PiecedDot> dots, int64_t begin, int64_t end) {
  for (const PiecedDot& dot : dots) {
    const int64_t first = std::max(begin - dot.first_piece, int64_t{0}) * dot.outputs_per_piece;
    const int64_t last = std::min((end - dot.first_piece) * dot.outputs_per_piece, dot.outputs);
    if (first < last) dot_outputs(dot.product, first, last);
  }
}

void run_dots(ThreadPool& pool, std::span<const LinearTask> tasks) {
  std::array<PiecedDot, kMostTasks> storage;
  int64_t pieces = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const Weight& weight = *tasks[i].weight;
    const int64_t each = outputs_per_piece(weight);
    storage[i] = {dot_product(tasks[i]), weight.out, each, pieces};
    pieces += (weight.out + each - 1) / each;
  }
  const std::span<const PiecedDot> dots = std::span(storage).first(tasks.size());
  pool.parallel_for(pieces, 1, [dots](int64_t begin, int64_t end) { run_pieces(dots, begin, end); });
}

}  // namespace

void linear_many(ThreadPool& pool, std::span<const LinearTask> tasks) {
  for (const LinearTask& task : tasks) check_task(task);
  for (size_t i = 0; i < tasks.size(); i += kMostTasks) {
    run_dots(pool, tasks.subspan(i, std::min(kMostTasks, tasks.size() - i)));
  }
}

void linear(ThreadPool& pool, Tensor in, const Weight& weight, Tensor out) {
  const LinearTask task{in, &weight, out};
  linear_many(pool, {&task, 1});
}

}  // namespace fulmar
