// Instructions that only compute capability 9.0 has: TMA (tensor memory accelerator) copies of
// whole tiles, wgmma (products of a warp group from shared memory), stmatrix, clusters and
// setmaxnreg. This folder is compiled for that architecture alone, so that another target's build
// fails here; other GPUs run other kernels.
#pragma once

#include <cuda.h>

#include "gpu/device/ptx.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "wgmma and setmaxnreg need the target sm_90a, which this folder is compiled for (fulmar_gpu_part)"
#endif

namespace fulmar::gpu {

__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Synchronises `threads` threads of the block, whole warps; barrier 0 is that of __syncthreads.
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- clusters: blocks on neighbouring SMs that can access each other's shared memory

__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
// Synchronises all threads of all blocks of the cluster, whole warps.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Returns the address in the cluster's block `rank` of what lies at `shared` in this one.
__device__ __forceinline__ uint32_t address_in(uint32_t rank, const void* shared) {
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(shared)), "r"(rank));
  return there;
}
// Stores two numbers in another block's shared memory.
__device__ __forceinline__ void store_cluster(uint32_t there, float2 v) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(there), "f"(v.x), "f"(v.y) : "memory");
}
// Loads four numbers from another block's shared memory.
__device__ __forceinline__ float4 load_cluster(uint32_t there) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(there)
               : "memory");
  return v;
}

// ---- setmaxnreg

// Lowers or raises the registers of each thread to kCount; all threads of a
// warp group call together.
template <int kCount>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// ---- TMA

// Loads the box of `map` that begins at (column, row); its bytes count towards the
// barrier's phase. One thread calls.
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& map, int column, int row,
                                         uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}
// Loads a box of a byte_map from (column, row, plane) on; a column is 8 bytes.
__device__ __forceinline__ void tma_load(void* to, const CUtensorMap& map, int column, int row, int plane,
                                         uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(plane)
      : "memory");
}
// Stores a box, without what lies outside the matrix; bulk_wait_read waits. One thread calls.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, int column, int row, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(column), "r"(row)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Stores four 8 x 8 matrices of 16-bit numbers. Of each matrix a lane holds the two numbers that accumulators
// have there; lane 8m + r gives the address of row r of matrix m, 16 bytes.
__device__ __forceinline__ void stmatrix(void* row, const uint32_t (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
               "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}

// Stores them transposed: each lane holds two numbers that lie below each other.
__device__ __forceinline__ void stmatrix_transposed(void* row, const uint32_t (&m)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
      : "memory");
}

// ---- wgmma: products of a warp group

// Returns the descriptor of an operand: rows of 64 16-bit numbers, 128 bytes apart and swizzled as by
// tma_load, from an address that is a multiple of 1024; `k` numbers along the rows, then wgmma_advance.
__device__ __forceinline__ uint64_t wgmma_matrix(const void* shared, int k) {
  constexpr uint64_t kEightRows = 1024, kSwizzled = uint64_t{1} << 62;
  return ((shared_address(shared) & 0x3ffff) + static_cast<uint32_t>(k) * 2) >> 4 | uint64_t{1} << 16 |
         (kEightRows >> 4) << 32 | kSwizzled;
}
// Returns the descriptor `bytes` further along, a multiple of 16.
__device__ __forceinline__ uint64_t wgmma_advance(uint64_t matrix, uint32_t bytes) {
  return matrix + (bytes >> 4);
}
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending of the committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from reading a sum before this point, after wgmma_wait, and from computing an operand in
// registers after it, before wgmma_fence.
__device__ __forceinline__ void wgmma_pin(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
__device__ __forceinline__ void wgmma_pin(uint32_t& operand) { asm volatile("" : "+r"(operand)::"memory"); }

#define FULMAR_EIGHT(s, i)                                                                    \
  "+f"(s[i]), "+f"(s[i + 1]), "+f"(s[i + 2]), "+f"(s[i + 3]), "+f"(s[i + 4]), "+f"(s[i + 5]), \
      "+f"(s[i + 6]), "+f"(s[i + 7])
#define FULMAR_16(s, i) FULMAR_EIGHT(s, i), FULMAR_EIGHT(s, i + 8)
#define FULMAR_32(s, i) FULMAR_16(s, i), FULMAR_16(s, i + 16)
#define FULMAR_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define FULMAR_NAMES_32 FULMAR_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define FULMAR_NAMES_64                                                                                  \
  FULMAR_NAMES_32                                                                                        \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56" \
  ",%57,%58,%59,%60,%61,%62,%63"
#define FULMAR_NAMES_80 FULMAR_NAMES_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define FULMAR_NAMES_96 FULMAR_NAMES_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define FULMAR_NAMES_128                                                                                    \
  FULMAR_NAMES_96                                                                                           \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%" \
  "117"                                                                                                     \
  ",%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// kind: "kINPUTS.f32.TYPE.TYPE"; orders: whether operands are K-major, which 8-bit ones always are
#define FULMAR_MULTIPLY(width, kind, orders, names, a, b, adds, ...)                            \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" adds                                  \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" width kind " {" names "}, %" a ", %" b \
               ", adds, 1, 1" orders ";\n}"                                                     \
               : __VA_ARGS__                                                                    \
               : "l"(weight), "l"(in), "r"(adds_to))
#define FULMAR_MULTIPLY_ANY(kind, orders)                                                          \
  if constexpr (kRows == 32) {                                                                     \
    FULMAR_MULTIPLY("32", kind, orders, FULMAR_NAMES_16, "16", "17", "18", FULMAR_16(sum, 0));     \
  } else if constexpr (kRows == 64) {                                                              \
    FULMAR_MULTIPLY("64", kind, orders, FULMAR_NAMES_32, "32", "33", "34", FULMAR_32(sum, 0));     \
  } else if constexpr (kRows == 128) {                                                             \
    FULMAR_MULTIPLY("128", kind, orders, FULMAR_NAMES_64, "64", "65", "66", FULMAR_32(sum, 0),     \
                    FULMAR_32(sum, 32));                                                           \
  } else if constexpr (kRows == 160) {                                                             \
    FULMAR_MULTIPLY("160", kind, orders, FULMAR_NAMES_80, "80", "81", "82", FULMAR_32(sum, 0),     \
                    FULMAR_32(sum, 32), FULMAR_16(sum, 64));                                       \
  } else if constexpr (kRows == 256) {                                                             \
    FULMAR_MULTIPLY("256", kind, orders, FULMAR_NAMES_128, "128", "129", "130", FULMAR_32(sum, 0), \
                    FULMAR_32(sum, 32), FULMAR_32(sum, 64), FULMAR_32(sum, 96));                   \
  } else {                                                                                         \
    FULMAR_MULTIPLY("192", kind, orders, FULMAR_NAMES_96, "96", "97", "98", FULMAR_32(sum, 0),     \
                    FULMAR_32(sum, 32), FULMAR_32(sum, 64));                                       \
  }

// An element of an E4M3 operand.
struct Float8 {
  uint8_t bits;
};

// Starts sum[64, kRows] = (adds_to ? sum : 0) + weight[64, K] * in[kRows, K]^T by the warp
// group, with K as many inputs as fill 32 bytes of T. Lane 4g+q of warp w holds in sum[4j..]
// the outputs 16w + g (twice) and 16w + g + 8 (twice) for the rows 8j + 2q and 8j + 2q + 1.
// sum may be read only after wgmma_wait.
template <class T, int kRows>
__device__ __forceinline__ void wgmma(float (&sum)[kRows / 2], uint64_t weight, uint64_t in, int adds_to) {
  static_assert(kRows == 32 || kRows == 64 || kRows == 128 || kRows == 160 || kRows == 192 || kRows == 256);
  if constexpr (__is_same(T, Float8)) {
    FULMAR_MULTIPLY_ANY("k32.f32.e4m3.e4m3", "")
  } else if constexpr (__is_same(T, Half)) {
    FULMAR_MULTIPLY_ANY("k16.f32.f16.f16", ", 0, 0")
  } else {
    FULMAR_MULTIPLY_ANY("k16.f32.bf16.bf16", ", 0, 0")
  }
}

#define FULMAR_MULTIPLY_REGISTERS(width, names, a0, a1, a2, a3, b, adds, ...)                                \
  asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" adds                                               \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" width "k16.f32.f16.f16 {" names "}, {%" a0 ", %" a1 \
               ", %" a2 ", %" a3 "}, %" b ", adds, 1, 1, 0;\n}"                                              \
               : __VA_ARGS__                                                                                 \
               : "r"(weight[0]), "r"(weight[1]), "r"(weight[2]), "r"(weight[3]), "l"(in), "r"(adds_to))

// Starts the same in f16 with the weights in registers (an RS product): lane 4g+q of warp w holds of the
// outputs 16w + g and 16w + g + 8 what mma has it hold of rows g and g + 8 (fragment.h). Needs a wgmma_fence
// after the last write of the weights, which must not change before wgmma_wait.
template <int kRows>
__device__ __forceinline__ void wgmma_registers(float (&sum)[kRows / 2], const uint32_t (&weight)[4],
                                                uint64_t in, int adds_to) {
  static_assert(kRows == 32 || kRows == 64 || kRows == 128 || kRows == 160);
  if constexpr (kRows == 32) {
    FULMAR_MULTIPLY_REGISTERS("32", FULMAR_NAMES_16, "16", "17", "18", "19", "20", "21", FULMAR_16(sum, 0));
  } else if constexpr (kRows == 64) {
    FULMAR_MULTIPLY_REGISTERS("64", FULMAR_NAMES_32, "32", "33", "34", "35", "36", "37", FULMAR_32(sum, 0));
  } else if constexpr (kRows == 128) {
    FULMAR_MULTIPLY_REGISTERS("128", FULMAR_NAMES_64, "64", "65", "66", "67", "68", "69", FULMAR_32(sum, 0),
                              FULMAR_32(sum, 32));
  } else {
    FULMAR_MULTIPLY_REGISTERS("160", FULMAR_NAMES_80, "80", "81", "82", "83", "84", "85", FULMAR_32(sum, 0),
                              FULMAR_32(sum, 32), FULMAR_16(sum, 64));
  }
}

#undef FULMAR_EIGHT
#undef FULMAR_16
#undef FULMAR_32
#undef FULMAR_NAMES_16
#undef FULMAR_NAMES_32
#undef FULMAR_NAMES_64
#undef FULMAR_NAMES_80
#undef FULMAR_NAMES_96
#undef FULMAR_NAMES_128
#undef FULMAR_MULTIPLY
#undef FULMAR_MULTIPLY_REGISTERS
#undef FULMAR_MULTIPLY_ANY

}  // namespace fulmar::gpu
