// RWKV-7 recurrence with gradient, for training small models.
//
// One block per (sequence, head), 64 threads; thread i holds row i of the state.
//   sa = S a;  S = S diag(w) + sa b^T + v k^T;  y = S r
// Documents are packed in rows and start at multiples of CHUNK tokens: where
// reset[b][t / CHUNK] is set, S starts again from s0[h].  The forward pass keeps
// S at the end of each chunk; the backward pass walks back inside a chunk by
// inverting the update (w > 0.54, so 16 inversions lose little).
#include <cuda_bf16.h>

namespace {

constexpr int N = 64;
constexpr int CHUNK = 16;

__device__ float load(const float* p) { return *p; }
__device__ float load(const __nv_bfloat16* p) { return __bfloat162float(*p); }
__device__ void store(float* p, float x) { *p = x; }
__device__ void store(__nv_bfloat16* p, float x) { *p = __float2bfloat16(x); }

template <class F>
__global__ __launch_bounds__(N) void forward(int T, int H, const F* r, const float* w, const F* k, const F* v,
                                             const F* a, const F* b, const float* s0, const unsigned char* reset,
                                             F* y, float* kept, float* sa_out) {
  const int h = blockIdx.x, row = blockIdx.y, i = threadIdx.x;
  const size_t step = size_t(H) * N;
  size_t at = size_t(row) * T * step + size_t(h) * N + i;
  __shared__ __align__(16) float R[2][N], W[2][N], K[2][N], A[2][N], B[2][N];
  float S[N];
#pragma unroll
  for (int j = 0; j < N; j++) S[j] = 0.f;
  float nr = load(r + at), nw = w[at], nk = load(k + at), nv = load(v + at), na = load(a + at), nb = load(b + at);
  for (int t = 0; t < T; t++, at += step) {
    const int f = t & 1;
    R[f][i] = nr; W[f][i] = nw; K[f][i] = nk; A[f][i] = na; B[f][i] = nb;
    const float vi = nv;
    __syncthreads();
    if (t + 1 < T) {
      const size_t n = at + step;
      nr = load(r + n); nw = w[n]; nk = load(k + n); nv = load(v + n); na = load(a + n); nb = load(b + n);
    }
    if (t % CHUNK == 0 && reset[size_t(row) * (T / CHUNK) + t / CHUNK]) {
#pragma unroll
      for (int j = 0; j < N; j++) S[j] = s0[(size_t(h) * N + i) * N + j];
    }
    float sa4[4] = {0.f, 0.f, 0.f, 0.f}, y4[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int j = 0; j < N; j++) sa4[j & 3] += S[j] * A[f][j];
    const float sa = (sa4[0] + sa4[1]) + (sa4[2] + sa4[3]);
#pragma unroll
    for (int j = 0; j < N; j++) {
      S[j] = S[j] * W[f][j] + sa * B[f][j] + vi * K[f][j];
      y4[j & 3] += S[j] * R[f][j];
    }
    store(y + at, (y4[0] + y4[1]) + (y4[2] + y4[3]));
    sa_out[at] = sa;
    if ((t + 1) % CHUNK == 0) {  // transposed: the backward threads own columns
      float* out = kept + ((size_t(row) * H + h) * (T / CHUNK) + t / CHUNK) * N * N + i;
#pragma unroll
      for (int j = 0; j < N; j++) out[j * N] = S[j];
    }
  }
}

template <class F>
__global__ __launch_bounds__(N) void backward(int T, int H, const F* r, const float* w, const F* k, const F* v,
                                              const F* a, const F* b, const unsigned char* reset, const F* dy,
                                              const float* kept, const float* sa_in, F* dr, float* dw, F* dk, F* dv,
                                              F* da, F* db, float* ds0) {
  const int h = blockIdx.x, row = blockIdx.y, i = threadIdx.x;
  const size_t step = size_t(H) * N;
  size_t at = (size_t(row) * T + (T - 1)) * step + size_t(h) * N + i;
  __shared__ __align__(16) float R[2][N], W[2][N], K[2][N], V[2][N], A[2][N], B[2][N], Y[2][N], P[2][N], Q[2][N];
  float S[N], D[N], E[N];  // S: column i of the state; D: row i of its gradient; E: column i of it
#pragma unroll
  for (int j = 0; j < N; j++) S[j] = D[j] = E[j] = 0.f;
  float nr = load(r + at), nw = w[at], nk = load(k + at), nv = load(v + at), na = load(a + at), nb = load(b + at),
        ny = load(dy + at), np = sa_in[at];
  for (int t = T - 1; t >= 0; t--, at -= step) {
    const int f = t & 1;
    const float ri = nr, wi = nw, ki = nk, ai = na, bi = nb, yi = ny;
    R[f][i] = nr; W[f][i] = nw; K[f][i] = nk; V[f][i] = nv; A[f][i] = na; B[f][i] = nb; Y[f][i] = ny; P[f][i] = np;
    __syncthreads();
    if (t > 0) {
      const size_t n = at - step;
      nr = load(r + n); nw = w[n]; nk = load(k + n); nv = load(v + n); na = load(a + n); nb = load(b + n);
      ny = load(dy + n); np = sa_in[n];
    }
    if ((t + 1) % CHUNK == 0) {
      const float* in = kept + ((size_t(row) * H + h) * (T / CHUNK) + t / CHUNK) * N * N + i * N;
#pragma unroll
      for (int j = 0; j < N; j++) S[j] = in[j];
    }
    const float inv = 1.f / wi;
    float gr[2] = {0.f, 0.f}, gv[2] = {0.f, 0.f}, gp[2] = {0.f, 0.f}, gk[2] = {0.f, 0.f}, gb[2] = {0.f, 0.f},
          gw[2] = {0.f, 0.f}, ga[2] = {0.f, 0.f};
#pragma unroll
    for (int j = 0; j < N; j++) {
      gr[j & 1] += S[j] * Y[f][j];
      S[j] = (S[j] - ki * V[f][j] - bi * P[f][j]) * inv;
      D[j] += yi * R[f][j];
      gv[j & 1] += D[j] * K[f][j];
      gp[j & 1] += D[j] * B[f][j];
      E[j] += Y[f][j] * ri;
      gk[j & 1] += E[j] * V[f][j];
      gb[j & 1] += E[j] * P[f][j];
      gw[j & 1] += E[j] * S[j];
    }
    const float dp = gp[0] + gp[1];
    Q[f][i] = dp;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < N; j++) {
      ga[j & 1] += S[j] * Q[f][j];
      D[j] = D[j] * W[f][j] + dp * A[f][j];
      E[j] = E[j] * wi + Q[f][j] * ai;
    }
    store(dr + at, gr[0] + gr[1]);
    dw[at] = gw[0] + gw[1];
    store(dk + at, gk[0] + gk[1]);
    store(dv + at, gv[0] + gv[1]);
    store(da + at, ga[0] + ga[1]);
    store(db + at, gb[0] + gb[1]);
    if (t % CHUNK == 0 && reset[size_t(row) * (T / CHUNK) + t / CHUNK]) {
#pragma unroll
      for (int j = 0; j < N; j++) {
        if (ds0) atomicAdd(ds0 + (size_t(h) * N + i) * N + j, D[j]);
        D[j] = E[j] = 0.f;
      }
    }
  }
}

template <class F>
int run_forward(int B, int T, int H, void** p, void* stream) {
  forward<F><<<dim3(H, B), N, 0, static_cast<cudaStream_t>(stream)>>>(
      T, H, (const F*)p[0], (const float*)p[1], (const F*)p[2], (const F*)p[3], (const F*)p[4], (const F*)p[5],
      (const float*)p[6], (const unsigned char*)p[7], (F*)p[8], (float*)p[9], (float*)p[10]);
  return cudaGetLastError();
}

template <class F>
int run_backward(int B, int T, int H, void** p, void* stream) {
  backward<F><<<dim3(H, B), N, 0, static_cast<cudaStream_t>(stream)>>>(
      T, H, (const F*)p[0], (const float*)p[1], (const F*)p[2], (const F*)p[3], (const F*)p[4], (const F*)p[5],
      (const unsigned char*)p[6], (const F*)p[7], (const float*)p[8], (const float*)p[9], (F*)p[10], (float*)p[11],
      (F*)p[12], (F*)p[13], (F*)p[14], (F*)p[15], (float*)p[16]);
  return cudaGetLastError();
}

}  // namespace

// Pointers in the order of the kernel arguments; half: 1 = bfloat16, 0 = float.
extern "C" int wkv7_forward(int half, int B, int T, int H, void** p, void* stream) {
  return half ? run_forward<__nv_bfloat16>(B, T, H, p, stream) : run_forward<float>(B, T, H, p, stream);
}

extern "C" int wkv7_backward(int half, int B, int T, int H, void** p, void* stream) {
  return half ? run_backward<__nv_bfloat16>(B, T, H, p, stream) : run_backward<float>(B, T, H, p, stream);
}
