// Row primitives: embedding, norm, shift, mixes, elementwise maths. One block per row.
#include <algorithm>

#include "base/check.h"
#include "gpu/device/element.h"
#include "gpu/device/for_rows.h"
#include "gpu/device/ptx.h"
#include "gpu/stages/rows.h"
#include "ops/state.h"

namespace fulmar::gpu {

namespace {

// Normalises the row in shared memory and passes it to `store`, four numbers at a time. Two passes: variance
// from the differences to the mean.
template <class Store>
__device__ void normalise_row(float* row, int64_t cols, const float* weight, const float* bias,
                              float* scratch, Store store) {
  float sum = 0;
  for_each_vector(cols, [&](int64_t c) {
    const Float4 v = load4(row + c);
    sum += (v.x[0] + v.x[1]) + (v.x[2] + v.x[3]);
  });
  const float mean = block_sum(sum, scratch) / static_cast<float>(cols);
  float squares = 0;
  for_each_vector(cols, [&](int64_t c) {
    const Float4 v = load4(row + c);
    for (const float x : v.x) squares += (x - mean) * (x - mean);
  });
  const float scale = rsqrtf(block_sum(squares, scratch) / static_cast<float>(cols) + kLayerNormEps);
  for_each_vector(cols, [&](int64_t c) {
    const Float4 v = load4(row + c), w = load4(weight + c), b = load4(bias + c);
    Float4 out;
#pragma unroll
    for (int i = 0; i < kRowVector; i++) out.x[i] = (v.x[i] - mean) * scale * w.x[i] + b.x[i];
    store(c, out);
  });
}

template <class Table>
__global__ void embed_kernel(const int32_t* token, const Table* table, const float* weight, const float* bias,
                             float* out, int64_t cols, int64_t stride) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarp];
  pdl_launch_next();
  pdl_wait();
  const Table* from = table + token[blockIdx.x] * cols;
  float* to = out + blockIdx.x * stride;
  if (weight == nullptr) return for_each_vector(cols, [&](int64_t c) { store4(to + c, load4(from + c)); });
  for_each_vector(cols, [&](int64_t c) { store4(row + c, load4(from + c)); });
  normalise_row(row, cols, weight, bias, scratch, [&](int64_t c, const Float4& v) { store4(to + c, v); });
}

template <class T>
__global__ void add_norm_kernel(float* x, int64_t x_stride, const T* pending, int64_t pending_stride,
                                const float* weight, const float* bias, T* z, int64_t z_stride,
                                int64_t cols) {
  extern __shared__ float row[];
  __shared__ float scratch[kWarp];
  pdl_launch_next();
  pdl_wait();
  float* from = x + blockIdx.x * x_stride;
  for_each_vector(cols, [&](int64_t c) {
    Float4 v = load4(from + c);
    if (pending != nullptr) {
      const Float4 p = load4(pending + blockIdx.x * pending_stride + c);
#pragma unroll
      for (int i = 0; i < kRowVector; i++) v.x[i] += p.x[i];
      store4(from + c, v);
    }
    store4(row + c, v);
  });
  T* to = z + blockIdx.x * z_stride;
  normalise_row(row, cols, weight, bias, scratch, [&](int64_t c, const Float4& v) { store4(to + c, v); });
}

size_t row_bytes(int64_t cols) { return static_cast<size_t>(cols) * sizeof(float); }

template <class T>
void add_of(const Queue& queue, Tensor x, Tensor pending) {
  const auto to = rows_of<float>(x);
  const auto from = rows_of<T>(pending);
  for_rows(queue, x.rows, x.cols, [=] __device__(int64_t row, int64_t c) {
    Float4 v = load4(to[row] + c);
    const Float4 p = load4(from[row] + c);
#pragma unroll
    for (int i = 0; i < kRowVector; i++) v.x[i] += p.x[i];
    store4(to[row] + c, v);
  });
}

template <class T>
void shift_of(const Queue& queue, Batch batch, Tensor z, StateField carry, Tensor out) {
  const auto from = rows_of<T>(z), to = rows_of<T>(out);
  const auto carried = slots_of<float>(carry);
  for_rows(queue, batch.rows, z.cols, [=] __device__(int64_t row, int64_t c) {
    const int32_t sequence = batch.sequence_of[row];
    const bool first = row == batch.start[sequence];
    store4(to[row] + c, first ? load4(carried[batch.slot[sequence]] + c) : load4(from[row - 1] + c));
  });
  // A launch of its own: the first row's block must have read the carried vector before it changes.
  for_rows(queue, batch.sequences, z.cols, [=] __device__(int64_t sequence, int64_t c) {
    store4(carried[batch.slot[sequence]] + c, load4(from[batch.start[sequence + 1] - 1] + c));
  });
}

template <class T>
void keep_rows_of(const Queue& queue, Batch batch, Tensor z, StateField carry) {
  const auto from = rows_of<T>(z);
  const RingField ring = carry.ring;
  for_rows(queue, batch.rows, z.cols, [=] __device__(int64_t row, int64_t c) {
    const int32_t sequence = batch.sequence_of[row], begin = batch.start[sequence];
    const RingStep step = batch.ring[sequence];
    if (step.keeps == 0 || batch.start[sequence + 1] - begin == 1) return;
    std::byte* to = ring.row(batch.slot[sequence], 0, step.first + step.held + row - begin);
    store4(reinterpret_cast<T*>(to) + c, load4(from[row] + c));
  });
}

// The first layer's value of a field in a slot, and where the ring holds an earlier one; types as stored.
struct RestoredField {
  std::byte* to;
  const std::byte* from;
  DType to_dtype, from_dtype;
  int count;  // of numbers
};
struct RestoredFields {
  RestoredField list[FieldList::kMost];
  int size = 0;
};

__device__ Float4 load4_of(DType dtype, const std::byte* from, int64_t c) {
  if (dtype == DType::f32) return load4(reinterpret_cast<const float*>(from) + c);
  if (dtype == DType::bf16) return load4(reinterpret_cast<const BFloat*>(from) + c);
  return load4(reinterpret_cast<const Half*>(from) + c);
}

// Mixes by a vector, f32 [1, C] or T [rows, C]; `delta` [rows, C] is added to it where given.
template <class T>
void lerp_of(const Queue& queue, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) {
  const auto a = rows_of<T>(z), b = rows_of<T>(other), to = rows_of<T>(out), per_row = rows_of<T>(mix);
  const auto more = rows_of<T>(delta);
  const float* shared = mix.dtype == DType::f32 ? mix.as<float>() : nullptr;
  for_rows(queue, z.rows, z.cols, [=] __device__(int64_t row, int64_t c) {
    const Float4 from = load4(a[row] + c), towards = load4(b[row] + c);
    Float4 share = shared != nullptr ? load4(shared + c) : load4(per_row[row] + c);
    const Float4 d = more.data != nullptr ? load4(more[row] + c) : Float4{};
    Float4 v;
#pragma unroll
    for (int i = 0; i < kRowVector; i++)
      v.x[i] = from.x[i] + (towards.x[i] - from.x[i]) * (share.x[i] + d.x[i]);
    store4(to[row] + c, v);
  });
}

template <class T>
void multiply_sigmoid_of(const Queue& queue, Tensor x, Tensor raw) {
  const auto at = rows_of<T>(x), gate = rows_of<T>(raw);
  for_rows(queue, x.rows, x.cols, [=] __device__(int64_t row, int64_t c) {
    Float4 v = load4(at[row] + c);
    const Float4 w = load4(gate[row] + c);
#pragma unroll
    for (int i = 0; i < kRowVector; i++) v.x[i] *= sigmoid(w.x[i]);
    store4(at[row] + c, v);
  });
}

template <class T>
void multiply_of(const Queue& queue, Tensor a, Tensor b, Tensor out) {
  const auto one = rows_of<T>(a), other = rows_of<T>(b), to = rows_of<T>(out);
  for_rows(queue, a.rows, a.cols, [=] __device__(int64_t row, int64_t c) {
    Float4 v = load4(one[row] + c);
    const Float4 w = load4(other[row] + c);
#pragma unroll
    for (int i = 0; i < kRowVector; i++) v.x[i] *= w.x[i];
    store4(to[row] + c, v);
  });
}

template <class T>
void narrow_of(const Queue& queue, Tensor wide, Tensor out) {
  const auto from = rows_of<float>(wide);
  const auto to = rows_of<T>(out);
  for_rows(queue, out.rows, out.cols,
           [=] __device__(int64_t row, int64_t c) { store4(to[row] + c, load4(from[row] + c)); });
}

template <class T, class Table>
void transform_of(const Queue& queue, Batch batch, const ChannelMix7& ffn, Tensor matrix, Tensor low,
                  Tensor transformed) {
  const int64_t rank = ffn.deep_rank;
  const auto more = rows_of<T>(matrix), weights = rows_of<T>(low), to = rows_of<T>(transformed);
  const auto* table = static_cast<const Table*>(ffn.s_emb.data);
  for_rows(queue, batch.rows, rank, [=] __device__(int64_t row, int64_t c) {
    Float4 sum{};
    for (int64_t d = 0; d < rank; d++) {
      const float weight = to_float(weights[row][d]);
      const Float4 own = load4(table + (batch.token[row] * rank + d) * rank + c);
      const Float4 added = load4(more[row] + d * rank + c);
#pragma unroll
      for (int i = 0; i < kRowVector; i++) sum.x[i] += weight * (own.x[i] + added.x[i]);
    }
    store4(to[row] + c, sum);
  });
}

template <class F>
void with_table(DType dtype, F&& f) {
  FULMAR_CHECK(is_kernel_float(dtype));
  if (dtype == DType::f32) return f(float{});
  dtype == DType::bf16 ? f(BFloat{}) : f(Half{});
}

}  // namespace

void embed(const Queue& queue, const Batch& batch, const Embedding& embedding, Tensor out) {
  with_table(embedding.table.dtype, [&](auto sample) {
    using Table = decltype(sample);
    launch(queue, embed_kernel<Table>, dim3(static_cast<unsigned>(batch.rows)), dim3(row_threads(out.cols)),
           row_bytes(out.cols), batch.token, static_cast<const Table*>(embedding.table.data),
           embedding.ln0.weight.as<float>(), embedding.ln0.bias.as<float>(), out.as<float>(), out.cols,
           out.stride);
  });
}

void add(const Queue& queue, Tensor x, Tensor pending) {
  with_activation(pending.dtype, [&](auto sample) { add_of<decltype(sample)>(queue, x, pending); });
}

void add_norm(const Queue& queue, Tensor x, Tensor pending, const Norm& norm, Tensor z) {
  with_activation(z.dtype, [&](auto sample) {
    using T = decltype(sample);
    launch(queue, add_norm_kernel<T>, dim3(static_cast<unsigned>(x.rows)), dim3(row_threads(x.cols)),
           row_bytes(x.cols), x.as<float>(), x.stride, pending.as<T>(), pending.stride,
           norm.weight.as<float>(), norm.bias.as<float>(), z.as<T>(), z.stride, x.cols);
  });
}

void shift(const Queue& queue, const Batch& batch, Tensor z, StateField carry, Tensor out) {
  with_activation(z.dtype, [&](auto sample) { shift_of<decltype(sample)>(queue, batch, z, carry, out); });
}

void keep_rows(const Queue& queue, const Batch& batch, Tensor z, StateField carry) {
  FULMAR_CHECK(z.dtype == carry.ring.dtype);
  with_table(z.dtype, [&](auto sample) { keep_rows_of<decltype(sample)>(queue, batch, z, carry); });
}

void restore_fields(const Queue& queue, const State& state, int64_t slot, int64_t ring_row) {
  RestoredFields kept;
  int64_t most = 0;
  for (size_t i = 0; i < state.layout.fields.size(); i++) {
    const FieldSpec& spec = state.layout.fields[i];
    if (spec.roll_back != FieldSpec::RollBack::restored) continue;
    const StateField field = state.field(0, i);
    const int64_t count = state.layout.count(spec);
    kept.list[kept.size++] = {field.at<std::byte>(slot), field.ring.row(slot, 0, ring_row), field.dtype,
                              field.ring.dtype, static_cast<int>(count)};
    most = std::max(most, count);
  }
  if (kept.size == 0) return;
  const size_t stride = state.layout.layer_bytes(), ring_stride = state.ring_layer_bytes();
  const int64_t layers = state.layout.n_layer;
  // One launch: all layers of a field, field after field.
  for_rows(queue, kept.size * layers, most, [=] __device__(int64_t row, int64_t c) {
    const RestoredField& field = kept.list[row / layers];
    const auto layer = static_cast<size_t>(row % layers);
    if (c >= field.count) return;
    const Float4 v = load4_of(field.from_dtype, field.from + layer * ring_stride, c);
    std::byte* to = field.to + layer * stride;
    if (field.to_dtype == DType::f32) return store4(reinterpret_cast<float*>(to) + c, v);
    store4(reinterpret_cast<Half*>(to) + c, v);
  });
}

void lerp(const Queue& queue, Tensor z, Tensor other, Tensor mix, Tensor out) {
  with_activation(z.dtype,
                  [&](auto sample) { lerp_of<decltype(sample)>(queue, z, other, mix, Tensor{}, out); });
}

void lerp_shifted(const Queue& queue, Tensor z, Tensor other, Tensor mix, Tensor delta, Tensor out) {
  with_activation(z.dtype, [&](auto sample) { lerp_of<decltype(sample)>(queue, z, other, mix, delta, out); });
}

void multiply(const Queue& queue, Tensor a, Tensor b, Tensor out) {
  with_activation(a.dtype, [&](auto sample) { multiply_of<decltype(sample)>(queue, a, b, out); });
}

void multiply_sigmoid(const Queue& queue, Tensor x, Tensor raw) {
  with_activation(x.dtype, [&](auto sample) { multiply_sigmoid_of<decltype(sample)>(queue, x, raw); });
}

void narrow(const Queue& queue, Tensor wide, Tensor out) {
  with_activation(out.dtype, [&](auto sample) { narrow_of<decltype(sample)>(queue, wide, out); });
}

void gather_rows(const Queue& queue, Tensor x, const int32_t* rows, Tensor out) {
  const auto from = rows_of<float>(x), to = rows_of<float>(out);
  for_rows(queue, out.rows, x.cols,
           [=] __device__(int64_t row, int64_t c) { store4(to[row] + c, load4(from[rows[row]] + c)); });
}

void transform_by_token(const Queue& queue, const Batch& batch, const ChannelMix7& ffn, Tensor matrix,
                        Tensor low, Tensor transformed) {
  with_activation(low.dtype, [&](auto sample) {
    with_table(ffn.s_emb.dtype, [&](auto table) {
      transform_of<decltype(sample), decltype(table)>(queue, batch, ffn, matrix, low, transformed);
    });
  });
}

}  // namespace fulmar::gpu
