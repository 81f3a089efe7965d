// Further instructions one after the other, each on the result of the one before, and side by side on all SMs: those of
// which ptxas does not say in the machine code when they are through, and branches. As in chains.cu.
#include <cstdint>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)

namespace {

constexpr unsigned kAll = ~0u;

// Which lanes hold the same number: as many different ones as kGroups.
template <int kGroups>
struct Match {
  static __device__ unsigned step(unsigned x) { return x + (__match_any_sync(kAll, x) == 0); }
  static __device__ unsigned start(unsigned) { return threadIdx.x % kGroups; }
};
struct Words {
  static __device__ unsigned start(unsigned x) { return x; }
};
struct Reduce : Words {
  static __device__ unsigned step(unsigned x) { return __reduce_add_sync(kAll, x); }
};
struct Count : Words {
  static __device__ unsigned step(unsigned x) { return __popc(x) ^ 0x5555u; }
};
struct Leading : Words {
  static __device__ unsigned step(unsigned x) { return x + __clz(x); }
};
struct Byte : Words {
  static __device__ unsigned step(unsigned x) {
    return __float_as_uint(static_cast<float>(static_cast<signed char>(x))) >> 16;
  }
};
struct Sine : Words {
  static __device__ unsigned step(unsigned x) { return __float_as_uint(__sinf(__uint_as_float(x))); }
};
struct Root : Words {
  static __device__ unsigned step(unsigned x) { return __float_as_uint(rsqrtf(__uint_as_float(x))); }
};
struct ToDouble : Words {
  static __device__ unsigned step(unsigned x) { return __double2hiint(static_cast<double>(__uint_as_float(x))); }
};

template <class Operation>
__global__ void repeated(unsigned* out, const unsigned* in, int times) {
  unsigned x = Operation::start(in[threadIdx.x]);
#pragma unroll 8
  for (int k = 0; k < times; ++k) x = Operation::step(x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void shared_returns(unsigned* out, const unsigned* in, int times) {
  __shared__ unsigned place[1024];
  place[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  unsigned x = 1;
#pragma unroll 8
  for (int k = 0; k < times; ++k) x = atomicAdd(place + threadIdx.x, x);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

__global__ void global_returns(unsigned* out, const unsigned* in, int times) {
  unsigned x = in[threadIdx.x];
#pragma unroll 8
  for (int k = 0; k < times; ++k) x = atomicAdd(out + blockIdx.x * blockDim.x + threadIdx.x, x & 1);
}

__global__ void short_loop(float* out, const float* in, int times) {
  float x = in[threadIdx.x];
#pragma unroll 1
  for (int k = 0; k < times; ++k) asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(x));
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// Odd and even lanes part in each turn.
__global__ void parted_lanes(float* out, const float* in, int times) {
  float x = in[threadIdx.x];
#pragma unroll 1
  for (int k = 0; k < times; ++k) {
    if ((threadIdx.x + k) % 2) {
#pragma unroll
      for (int i = 0; i < 16; ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(x));
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) asm volatile("fma.rn.f32 %0, %0, 0f3F000000, 0f3E800000;" : "+f"(x));
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// A long body that the instruction cache must hold: 4,096 multiplications.
__global__ void long_body(float* out, const float* in, int times) {
  float x = in[threadIdx.x], y = x, z = x, w = x;
#pragma unroll 1
  for (int k = 0; k < times; ++k) {
#pragma unroll
    for (int i = 0; i < 1024; ++i) {
      asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(x));
      asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(y));
      asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(z));
      asm volatile("fma.rn.f32 %0, %0, 0f3F400000, 0f3F000000;" : "+f"(w));
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + y + z + w;
}

}  // namespace

#define BOTH(name, kernel)                                                                                  \
  LAUNCHER(chain_##name) {                                                                                  \
    kernel<<<static_cast<unsigned>(a), 32, 0, stream>>>((unsigned*)out, (const unsigned*)in, static_cast<int>(b)); \
    return cudaGetLastError();                                                                              \
  }                                                                                                         \
  LAUNCHER(many_##name) {                                                                                   \
    kernel<<<static_cast<unsigned>(a), 256, 0, stream>>>((unsigned*)out, (const unsigned*)in, static_cast<int>(b)); \
    return cudaGetLastError();                                                                              \
  }
#define FLOATS(name, threads, kernel)                                                                       \
  LAUNCHER(name) {                                                                                          \
    kernel<<<static_cast<unsigned>(a), threads, 0, stream>>>((float*)out, (const float*)in, static_cast<int>(b)); \
    return cudaGetLastError();                                                                              \
  }
BOTH(match_1, repeated<Match<1>>)
BOTH(match_8, repeated<Match<8>>)
BOTH(match_32, repeated<Match<32>>)
BOTH(redux, repeated<Reduce>)
BOTH(popc, repeated<Count>)
BOTH(clz, repeated<Leading>)
BOTH(from_byte, repeated<Byte>)
BOTH(sine, repeated<Sine>)
BOTH(rsqrt, repeated<Root>)
BOTH(to_double, repeated<ToDouble>)
BOTH(shared_returns, shared_returns)
BOTH(global_returns, global_returns)
FLOATS(chain_short_loop, 32, short_loop)
FLOATS(many_short_loop, 256, short_loop)
FLOATS(chain_parted, 32, parted_lanes)
FLOATS(many_parted, 256, parted_lanes)
FLOATS(chain_long_body, 32, long_body)
FLOATS(many_long_body, 256, long_body)
