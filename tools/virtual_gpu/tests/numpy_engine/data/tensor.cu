// Tensor cores through nvcuda::wmma and through inline PTX; one warp, whole matrices.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

template <typename T, typename C, int M, int N, int K, typename Layout, int Stride>
__device__ void multiply(const T* a, const T* b, const C* c, C* d) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, Layout> fb;
  wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  wmma::load_matrix_sync(fa, a, K);
  wmma::load_matrix_sync(fb, b, Stride);
  wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, N, wmma::mem_row_major);
}
#define WMMA(name, T, C, M, N, K, layout, stride)                                             \
  extern "C" __global__ void name(const T* a, const T* b, const C* c, C* d) {                 \
    multiply<T, C, M, N, K, wmma::layout, stride>(a, b, c, d);                                \
  }
WMMA(wmma_f16_f32, half, float, 16, 16, 16, row_major, 16)
WMMA(wmma_f16_f16, half, half, 32, 8, 16, col_major, 16)
WMMA(wmma_bf16, __nv_bfloat16, float, 8, 32, 16, col_major, 16)
WMMA(wmma_s8, signed char, int, 16, 16, 16, col_major, 16)

// A in rows, B in columns (so both by ldmatrix without .trans), C and D in rows.
template <int K>
__device__ void stage(const unsigned* a, const unsigned* b, unsigned* sa, unsigned* sb) {
  for (int i = threadIdx.x; i < 16 * K / 4; i += 32) sa[i] = a[i];
  for (int i = threadIdx.x; i < 8 * K / 4; i += 32) sb[i] = b[i];
  __syncwarp();
}
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

#define MMA16(name, op)                                                                       \
  extern "C" __global__ void name(const unsigned* a, const unsigned* b, const float* c, float* d) { \
    __shared__ __align__(16) unsigned sa[16 * 8], sb[8 * 8];                                  \
    stage<32>(a, b, sa, sb);                                                                  \
    int l = threadIdx.x, g = l / 4, t = l % 4;                                                \
    unsigned fa[4], fb[2];                                                                    \
    float x[4] = {c[g * 8 + 2 * t], c[g * 8 + 2 * t + 1], c[(g + 8) * 8 + 2 * t], c[(g + 8) * 8 + 2 * t + 1]}; \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"              \
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])                         \
                 : "r"(shared_address(sa) + l % 16 * 32 + l / 16 * 16));                      \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"                    \
                 : "=r"(fb[0]), "=r"(fb[1]) : "r"(shared_address(sb) + l % 8 * 32 + l / 8 % 2 * 16)); \
    asm volatile("mma.sync.aligned." op " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+f"(x[0]), "+f"(x[1]), "+f"(x[2]), "+f"(x[3])                             \
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));   \
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = x[i];                \
  }
MMA16(tile_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA16(tile_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA16(tile_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

extern "C" __global__ void tile_s8(const unsigned* a, const unsigned* b, const int* c, int* d) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  int x[4];
  for (int i = 0; i < 4; i++) x[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  // k = 32: eight words a row.
  asm volatile("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(x[0]), "+r"(x[1]), "+r"(x[2]), "+r"(x[3])
               : "r"(a[g * 8 + t]), "r"(a[(g + 8) * 8 + t]), "r"(a[g * 8 + 4 + t]), "r"(a[(g + 8) * 8 + 4 + t]),
                 "r"(b[g * 8 + t]), "r"(b[g * 8 + 4 + t]));
  for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = x[i];
}

// 16-bit accumulation, k = 8.
extern "C" __global__ void tile_half(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) {
  int l = threadIdx.x, g = l / 4, t = l % 4;
  unsigned x = c[g * 4 + t], y = c[(g + 8) * 4 + t];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
               : "+r"(x), "+r"(y) : "r"(a[g * 4 + t]), "r"(a[(g + 8) * 4 + t]), "r"(b[g * 4 + t]));
  d[g * 4 + t] = x;
  d[(g + 8) * 4 + t] = y;
}

// Four 8x8 matrices in, transposed, and out again, the first two.
extern "C" __global__ void transposed(const uint4* in, unsigned* taken, uint4* out) {
  __shared__ uint4 tile[32], back[32];
  int l = threadIdx.x;
  tile[l] = in[l];
  back[l] = make_uint4(0, 0, 0, 0);
  __syncwarp();
  unsigned r[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(tile + l)));
  for (int i = 0; i < 4; i++) taken[l * 4 + i] = r[i];
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};"
               :: "r"(shared_address(back + l)), "r"(r[0]), "r"(r[1]) : "memory");
  __syncwarp();
  out[l] = back[l];
}

extern "C" __global__ void half_a_warp(const unsigned* a, unsigned* d) {
  if (threadIdx.x < 16) {
    unsigned x = 0, y = 0;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%2}, {%2}, {%0,%1};"
                 : "+r"(x), "+r"(y) : "r"(a[threadIdx.x]));
    d[threadIdx.x] = x + y;
  }
}
