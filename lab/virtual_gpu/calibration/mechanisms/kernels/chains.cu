// One instruction after the other, each on the result of the one before: cycles from operand to result. And the same
// instructions side by side, on all SMs: how many a clock. Every launcher: (out, in, a, b, stream); a blocks, b turns.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)

namespace {

struct Fma {
  static __device__ float step(float x) { return fmaf(x, 0.75f, 0.5f); }
};
struct Multiply64 {
  static __device__ float step(float x) {
    const unsigned long long word = __float_as_uint(x);
    return __uint_as_float(static_cast<unsigned>(word * 0x9e3779b97f4a7c15ull >> 32) | 1);
  }
};
struct Xor {
  static __device__ float step(float x) {
    unsigned word = __float_as_uint(x);
    asm volatile("xor.b32 %0, %0, 0x2545f491; add.u32 %0, %0, 77;" : "+r"(word));
    return __uint_as_float(word);
  }
};
struct Exponential {
  static __device__ float step(float x) {
    asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
  }
};
struct Convert {
  static __device__ float step(float x) {
    asm volatile("{.reg .b16 h; cvt.rn.f16.f32 h, %0; cvt.f32.f16 %0, h;}" : "+f"(x));
    return x;
  }
};
struct ToInteger {
  static __device__ float step(float x) {
    asm volatile("{.reg .b32 i; cvt.rni.s32.f32 i, %0; cvt.rn.f32.s32 %0, i;}" : "+f"(x));
    return x;
  }
};
struct Halves {
  static __device__ float step(float x) {
    asm volatile("fma.rn.f16x2 %0, %0, %0, %0;" : "+r"(reinterpret_cast<unsigned&>(x)));
    return x;
  }
};
struct Shuffle {
  static __device__ float step(float x) { return __shfl_xor_sync(~0u, x, 1); }
};
struct Ballot {
  static __device__ float step(float x) { return __uint_as_float(__ballot_sync(~0u, x > 0.5f) | 0x3f000000u); }
};
struct Double {
  static __device__ float step(float x) {
    double wide = __hiloint2double(0x3ff00000, __float_as_int(x));
    wide = wide * 0.75 + 0.5;
    return __int_as_float(__double2loint(wide));
  }
};

template <class Op>
__global__ void chain(float* out, const float* in, int times) {
  float x = in[threadIdx.x];
#pragma unroll 8
  for (int k = 0; k < times; ++k) x = Op::step(x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void through_shared(float* out, const float* in, int times) {
  __shared__ unsigned next[32];
  next[threadIdx.x] = (threadIdx.x + 1) % 32;
  __syncthreads();
  unsigned at = __float_as_uint(in[threadIdx.x]) % 32;
#pragma unroll 8
  for (int k = 0; k < times; ++k) at = next[at];
  out[threadIdx.x] = at;
}

__global__ void barriers(float* out, const float* in, int times) {
#pragma unroll 8
  for (int k = 0; k < times; ++k) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = in[threadIdx.x];
}

struct F16k16 {
  static __device__ void step(float (&d)[4], const unsigned (&p)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]));
  }
};
struct F16k8 {
  static __device__ void step(float (&d)[4], const unsigned (&p)[4]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%4}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(p[0]), "r"(p[1]));
  }
};
struct Tf32 {
  static __device__ void step(float (&d)[4], const unsigned (&p)[4]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]));
  }
};
struct Int8 {
  static __device__ void step(float (&d)[4], const unsigned (&p)[4]) {
    int(&i)[4] = reinterpret_cast<int(&)[4]>(d);
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, {%0,%1,%2,%3};"
                 : "+r"(i[0]), "+r"(i[1]), "+r"(i[2]), "+r"(i[3])
                 : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]));
  }
};

// kApart products at once, each added to its own sums.
template <class Op, int kApart>
__global__ void products(float* out, const unsigned* in, int times) {
  unsigned p[4];
  float d[kApart][4];
#pragma unroll
  for (int k = 0; k < 4; ++k) p[k] = in[threadIdx.x * 4 + k];
#pragma unroll
  for (int j = 0; j < kApart; ++j)
#pragma unroll
    for (int k = 0; k < 4; ++k) d[j][k] = 0;
#pragma unroll 4
  for (int k = 0; k < times; k += kApart)
#pragma unroll
    for (int j = 0; j < kApart; ++j) Op::step(d[j], p);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < kApart; ++j) sum += d[j][0] + d[j][1] + d[j][2] + d[j][3];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void matrices(float* out, const unsigned* in, int times) {
  __shared__ __align__(16) unsigned tile[32 * 8 * 4];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] = in[i] & 0x70;
  __syncthreads();
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x % 32 * 4)), sum = 0;
#pragma unroll 8
  for (int k = 0; k < times; ++k) {
    unsigned p, q, r, s;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(p), "=r"(q), "=r"(r), "=r"(s)
                 : "r"(at + (sum & 16)));
    sum += p ^ q ^ r ^ s;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Atomics on shared memory: a warp's lanes on kPlaces words.
template <int kPlaces, class Number>
__global__ void shared_sums(float* out, const float* in, int times) {
  __shared__ Number sum[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) sum[i] = 0;
  __syncthreads();
  const Number x = static_cast<Number>(in[threadIdx.x]);
  const int at = threadIdx.x / 32 * 32 + threadIdx.x % kPlaces;
#pragma unroll 8
  for (int k = 0; k < times; ++k) atomicAdd(sum + at, x);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<float>(sum[threadIdx.x]);
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define TWO(name, threads, kernel, pointers)                                \
  LAUNCHER(name) {                                                          \
    kernel<<<static_cast<unsigned>(a), threads, 0, stream>>>(pointers, static_cast<int>(b)); \
    return cudaGetLastError();                                              \
  }
#define COMMA ,
#define WORDS (float*)out, (const unsigned*)in
TWO(chain_fma, 32, chain<Fma>, FLOATS)
TWO(chain_multiply64, 32, chain<Multiply64>, FLOATS)
TWO(chain_xor, 32, chain<Xor>, FLOATS)
TWO(chain_ex2, 32, chain<Exponential>, FLOATS)
TWO(chain_halves, 32, chain<Halves>, FLOATS)
TWO(chain_convert, 32, chain<Convert>, FLOATS)
TWO(chain_to_integer, 32, chain<ToInteger>, FLOATS)
TWO(chain_shuffle, 32, chain<Shuffle>, FLOATS)
TWO(chain_ballot, 32, chain<Ballot>, FLOATS)
TWO(chain_double, 32, chain<Double>, FLOATS)
TWO(chain_shared, 32, through_shared, FLOATS)
TWO(chain_barrier_128, 128, barriers, FLOATS)
TWO(chain_barrier_1024, 1024, barriers, FLOATS)
TWO(chain_mma_f16_k16, 32, products<F16k16 COMMA 1>, WORDS)
TWO(chain_mma_f16_k8, 32, products<F16k8 COMMA 1>, WORDS)
TWO(chain_mma_tf32_k8, 32, products<Tf32 COMMA 1>, WORDS)
TWO(chain_mma_int8_k32, 32, products<Int8 COMMA 1>, WORDS)
TWO(chain_ldmatrix, 32, matrices, WORDS)
TWO(many_mma_f16_k16, 256, products<F16k16 COMMA 4>, WORDS)
TWO(many_mma_f16_k8, 256, products<F16k8 COMMA 4>, WORDS)
TWO(many_mma_tf32_k8, 256, products<Tf32 COMMA 4>, WORDS)
TWO(many_mma_int8_k32, 256, products<Int8 COMMA 4>, WORDS)
TWO(many_convert, 256, chain<Convert>, FLOATS)
TWO(many_to_integer, 256, chain<ToInteger>, FLOATS)
TWO(many_halves, 256, chain<Halves>, FLOATS)
TWO(many_doubles, 256, chain<Double>, FLOATS)
TWO(many_multiply64, 256, chain<Multiply64>, FLOATS)
TWO(many_ldmatrix, 256, matrices, WORDS)
TWO(shared_sums_1, 256, shared_sums<1 COMMA unsigned>, FLOATS)
TWO(shared_sums_4, 256, shared_sums<4 COMMA unsigned>, FLOATS)
TWO(shared_sums_32, 256, shared_sums<32 COMMA unsigned>, FLOATS)
TWO(shared_floats_1, 256, shared_sums<1 COMMA float>, FLOATS)
TWO(shared_floats_4, 256, shared_sums<4 COMMA float>, FLOATS)
TWO(shared_floats_32, 256, shared_sums<32 COMMA float>, FLOATS)
