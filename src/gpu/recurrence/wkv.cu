// Both recurrences token by token. A block of 128 threads owns one head of one sequence: the state stays in
// registers, read and written once at any number of rows. Head sizes other than 64 use a plain kernel that
// works in global memory.
#include "base/check.h"
#include "gpu/device/ptx.h"
#include "gpu/recurrence/recurrence.h"
#include "gpu/recurrence/wkv_head.h"

namespace fulmar::gpu {

namespace {

// From this many f16 states on, steps of one row per sequence use wkv_single, which prefetches several states
// per block. It needs nearly all shared memory of an SM, which GEMMs at fewer rows leave to L1: there a step
// is slower with it, presumably because the SM repartitions that memory twice a layer.
constexpr int64_t kLeastHalfStates = 9;
// Rows of longer rings do not fit into shared memory beside the prefetched states.
constexpr int64_t kMostStagedRows = 12;

template <int kVersion, class T, class S>
__global__ void __launch_bounds__(kWkvThreads)
    wkv_kernel(Batch batch, WkvInputs in, LeaveWeights leave, bool leaves, Slots<S> slots, T* y,
               int64_t y_stride, int64_t longest) {
  __shared__ SpreadToken shared;
  const int64_t head = blockIdx.x, sequence = blockIdx.y, channel = head * kHeadSize;
  const int64_t begin = batch.start[sequence], end = batch.start[sequence + 1];
  pdl_launch_next();
  if (end - begin > longest) {
    pdl_wait();  // or the next kernel could start before the previous one has finished
    return;
  }
  const int lane = threadIdx.x % kLanesPerRow, group = threadIdx.x / kLanesPerRow;
  S* own = slots[batch.slot[sequence]] + channel * kHeadSize;
  float state[kRowsPerThread][kKeys];
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    widen(fetch_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane), state[p]);
  }
  pdl_wait();
  for (int64_t t = begin; t < end; t++) {
    const int64_t at = t * in.stride + channel;
    __syncthreads();
    spread_token<kVersion, S>(fetch_token<kVersion, T>(in, at), in.bonus, channel, shared);
    __syncthreads();
    update_state<kVersion>(state, shared);
    __syncthreads();
    Float2 gate{};
    if (leaves && writes_output()) gate = load2(static_cast<const T*>(in.g) + at + output_channel());
    write_output<kVersion, T, S>(leave, leaves, gate, channel, shared, y + t * y_stride + channel);
  }
#pragma unroll
  for (int p = 0; p < kRowsPerThread; p++) {
    store_state_row(own + (group * kRowsPerThread + p) * kHeadSize, lane, state[p]);
  }
}

// Updates heads of any size: one thread per value channel, the state in global memory.
template <int kVersion, class T, class S>
__global__ void wkv_plain_kernel(Batch batch, WkvInputs in, Slots<S> slots, T* y, int64_t y_stride,
                                 int64_t n) {
  extern __shared__ float vectors[];  // r, w, k, first, second: [5, n]
  float *r = vectors, *w = r + n, *k = w + n, *first = k + n, *second = first + n;
  pdl_launch_next();
  pdl_wait();
  const int64_t sequence = blockIdx.y, channel = blockIdx.x * n, i = threadIdx.x;
  S* row = slots[batch.slot[sequence]] + (channel + i) * n;
  for (int64_t t = batch.start[sequence]; t < batch.start[sequence + 1]; t++) {
    const int64_t at = t * in.stride + channel + i;
    const auto number = [&](const void* from) { return to_float(static_cast<const T*>(from)[at]); };
    const float u = number(in.u), v = number(in.v);
    __syncthreads();
    r[i] = number(in.r);
    k[i] = number(in.k);
    w[i] = kRemoves<kVersion> ? expf(log_decay7(u)) : expf(-expf(u));
    first[i] = kRemoves<kVersion> ? -number(in.kk) : in.bonus[channel + i] * k[i];
    second[i] = kRemoves<kVersion> ? number(in.kk) * number(in.alpha) : 0.0f;
    __syncthreads();
    float removed = 0, out = 0;
    for (int64_t j = 0; kRemoves<kVersion> && j < n; j++) removed += to_float(row[j]) * first[j];
    for (int64_t j = 0; j < n; j++) {
      const float old = to_float(row[j]), moved = old * w[j] + removed * second[j] + v * k[j];
      out += r[j] * (kRemoves<kVersion> ? moved : old + first[j] * v);
      row[j] = state_number<S>(moved);
    }
    y[t * y_stride + channel + i] = from_float<T>(out);
  }
}

template <int kVersion, class T, class S>
void wkv_of(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  const StateField& wkv = on.wkv;
  const Tensor& y = on.y;
  const dim3 grid(static_cast<unsigned>(heads.count), static_cast<unsigned>(batch.sequences));
  const auto slots = slots_of<S>(wkv);
  if (heads.size == kHeadSize) {
    FULMAR_CHECK(batch.ring == nullptr || (wkv.ring.base != nullptr && wkv.ring.layout.dtype == y.dtype));
    // f32 states are large enough to saturate memory one by one: 3 % faster measured without prefetch.
    const bool staged = batch.ring == nullptr || wkv.ring.layout.rows <= kMostStagedRows;
    if (sizeof(S) == 2 && batch.decode_only() && batch.sequences >= kLeastHalfStates && staged) {
      return wkv_single(queue, batch, heads, on);
    }
    if (batch.ring != nullptr && suits_wkv_few(heads.count * batch.sequences, on.multiprocessors)) {
      return wkv_few(queue, batch, heads, on);
    }
    if (batch.ring != nullptr) return wkv_deferred(queue, batch, heads, on);
    launch(queue, wkv_kernel<kVersion, T, S>, grid, dim3(kWkvThreads), 0, batch, heads.in, heads.leave,
           on.leaves, slots, y.as<T>(), y.stride, on.longest);
    return;
  }
  FULMAR_CHECK(heads.size <= 1024 && !on.leaves && on.longest == INT64_MAX && batch.ring == nullptr);
  launch(queue, wkv_plain_kernel<kVersion, T, S>, grid, dim3(static_cast<unsigned>(heads.size)),
         static_cast<size_t>(5 * heads.size) * sizeof(float), batch, heads.in, slots, y.as<T>(), y.stride,
         heads.size);
}

void wkv(const Queue& queue, const Batch& batch, const WkvHeads& heads, const Recurrence& on) {
  with_activation(on.y.dtype, [&](auto sample) {
    using T = decltype(sample);
    const bool wide = on.wkv.dtype == DType::f32;
    const auto run = removes(heads.version) ? (wide ? wkv_of<7, T, float> : wkv_of<7, T, Half>)
                                            : (wide ? wkv_of<6, T, float> : wkv_of<6, T, Half>);
    run(queue, batch, heads, on);
  });
}

}  // namespace

void wkv7(const Queue& queue, const Batch& batch, const TimeMix7& att, const Projected7& p,
          const Recurrence& on) {
  const WkvInputs in{p.r.data,     p.k.data, p.v.data,   p.u.data, p.kk.data,
                     p.alpha.data, p.g.data, p.r.stride, nullptr};
  wkv(queue, batch, {7, att.n_head, att.head_size, in, leave_weights(att)}, on);
}

void wkv6(const Queue& queue, const Batch& batch, const TimeMix6& att, const Projected6& p,
          const Recurrence& on) {
  const WkvInputs in{p.r.data, p.k.data, p.v.data,   p.u.data,         nullptr,
                     nullptr,  p.g.data, p.r.stride, att.u.as<float>()};
  wkv(queue, batch, {6, att.n_head, att.head_size, in, leave_weights(att)}, on);
}

}  // namespace fulmar::gpu
