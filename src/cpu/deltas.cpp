#include "cpu/deltas.h"

#include <algorithm>
#include <utility>

namespace fulmar::cpu {

namespace {

// Working memory of one change. Tensors that it does not need are empty.
struct DeltaWork {
  Tensor input;   // u, [rows, in]
  Tensor again;   // W u, [rows, out]
  Tensor low;     // down u, [rows, R]
  Tensor addend;  // up (down u), [rows, out]
};

bool alters_input(const MatrixDelta& delta) { return !delta.input_gain.empty() || !delta.blocks.empty(); }

// Computes u of one row.
void alter_input(const MatrixDelta& delta, const float* x, int64_t in, float* u) {
  if (!delta.input_gain.empty()) {
    const float* gain = delta.input_gain.as<float>();
    for (int64_t i = 0; i < in; i++) u[i] = gain[i] * x[i];
    return;
  }
  const int64_t rank = delta.rank;
  for (int64_t i = 0; i < in; i++) {
    const float* row = delta.blocks.row<float>(i);
    const float* block = x + i / rank * rank;
    float sum = 0;
    for (int64_t j = 0; j < rank; j++) sum += row[j] * block[j];
    u[i] = sum;
  }
}

// Sums the inputs of one row by their number modulo the rank.
void fold(const MatrixDelta& delta, const float* u, int64_t in, float* sums) {
  std::fill_n(sums, delta.rank, 0.0f);
  int64_t to = delta.first_input % delta.rank;
  for (int64_t i = 0; i < in;) {
    const int64_t run = std::min(delta.rank - to, in - i);
    for (int64_t j = 0; j < run; j++) sums[to + j] += u[i + j];
    i += run, to = 0;
  }
}

// Changes one row of y.
void change_row(const DeltaProduct& one, const DeltaWork& work, int64_t row) {
  const MatrixDelta& delta = *one.delta;
  const int64_t cols = one.out.cols;
  float* y = one.out.row<float>(row);
  const float t = one.scale, s = delta.scale;
  if (!delta.blocks.empty()) {
    const float *again = work.again.row<float>(row), *low = work.low.row<float>(row);
    for (int64_t o = 0; o < cols; o++) {
      y[o] += t * (again[o] + s * low[(delta.first_output + o) % delta.rank]);
    }
    return;
  }
  const float* add = work.addend.row<float>(row);
  if (!delta.input_gain.empty()) {
    const float* again = work.again.row<float>(row);
    for (int64_t o = 0; o < cols; o++) y[o] += t * (again[o] + s * add[o] - y[o]);
  } else if (!delta.gain.empty()) {
    const float* gain = delta.gain.as<float>();
    for (int64_t o = 0; o < cols; o++) y[o] += t * (gain[o] * (y[o] + s * add[o]) - y[o]);
  } else {
    const float factor = t * s;
    for (int64_t o = 0; o < cols; o++) y[o] += factor * add[o];
  }
}

// Calls body(change, row) for every row of every change.
template <class Body>
void for_rows(ThreadPool& pool, std::span<const DeltaProduct> changes, Body body) {
  std::vector<std::pair<size_t, int64_t>> rows;
  for (size_t i = 0; i < changes.size(); i++) {
    for (int64_t t = 0; t < changes[i].in.rows; t++) rows.emplace_back(i, t);
  }
  pool.parallel_for(static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      body(rows[static_cast<size_t>(i)].first, rows[static_cast<size_t>(i)].second);
    }
  });
}

}  // namespace

std::vector<DeltaProduct> delta_products(std::span<const LinearTask> tasks, const StepDeltas& deltas) {
  std::vector<DeltaProduct> found;
  for (const LinearTask& task : tasks) {
    const auto add = [&](const std::vector<DeltaRows>& ranges, bool of_wanted) {
      for (const DeltaRows& rows : ranges) {
        const auto delta = rows.by.deltas->of.find(task.weight->data);
        if (delta == rows.by.deltas->of.end() || delta->second.of_wanted != of_wanted) continue;
        found.push_back({&delta->second, task.weight, task.in.slice_rows(rows.first, rows.count),
                         task.out.slice_rows(rows.first, rows.count), rows.by.scale});
      }
    };
    add(deltas.packed, false);
    add(deltas.wanted, true);
  }
  return found;
}

void add_deltas(ThreadPool& pool, std::span<const DeltaProduct> changes, const LinearMode& mode,
                FunctionRef<Tensor(int64_t rows, int64_t cols)> take) {
  std::vector<DeltaWork> work(changes.size());
  std::vector<LinearTask> first, up;
  for (size_t i = 0; i < changes.size(); i++) {
    const DeltaProduct& one = changes[i];
    const MatrixDelta& delta = *one.delta;
    DeltaWork& own = work[i];
    own.input = one.in;
    own.low = take(one.in.rows, delta.rank);
    if (alters_input(delta)) {
      own.input = take(one.in.rows, one.in.cols);
      own.again = take(one.in.rows, one.out.cols);
      first.push_back({own.input, one.weight, own.again});
    }
    if (!delta.down.empty()) first.push_back({own.input, &delta.down, own.low});
    if (delta.up.empty()) continue;
    own.addend = take(one.in.rows, one.out.cols);
    up.push_back({own.low, &delta.up, own.addend});
  }
  for_rows(pool, changes, [&](size_t i, int64_t t) {
    const MatrixDelta& delta = *changes[i].delta;
    const DeltaWork& own = work[i];
    if (alters_input(delta)) {
      alter_input(delta, changes[i].in.row<float>(t), own.input.cols, own.input.row<float>(t));
    }
    if (delta.down.empty()) fold(delta, own.input.row<float>(t), own.input.cols, own.low.row<float>(t));
  });
  linear_many(pool, first, mode);
  linear_many(pool, up, mode);
  for_rows(pool, changes, [&](size_t i, int64_t t) { change_row(changes[i], work[i], t); });
}

}  // namespace fulmar::cpu
