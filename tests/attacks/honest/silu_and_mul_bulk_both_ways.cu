// Gate and up come by bulk copies, the result leaves by one; rows that are not aligned go element by element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kPiece = 1024;

template <typename T>
__device__ T silu(T gate, T up) { return T(float(gate) / (1.0f + expf(-float(gate))) * float(up)); }

template <typename T>
__global__ void pieces(T* out, const T* input, int64_t d) {
  __shared__ alignas(128) T gates[kPiece], ups[kPiece];
  __shared__ uint64_t here;
  const int64_t token = blockIdx.x, from = int64_t(blockIdx.y) * kPiece;
  const int count = int(d - from < kPiece ? d - from : kPiece);
  const T *gate = input + token * 2 * d + from, *up = gate + d;
  T* to = out + token * d + from;
  const unsigned bytes = count * sizeof(T);
  if ((reinterpret_cast<uintptr_t>(gate) | reinterpret_cast<uintptr_t>(up) | reinterpret_cast<uintptr_t>(to) | bytes) % 16) {
    for (int i = threadIdx.x; i < count; i += 128) to[i] = silu(gate[i], up[i]);
    return;
  }
  const unsigned flag = unsigned(__cvta_generic_to_shared(&here)), a = unsigned(__cvta_generic_to_shared(gates)), b = unsigned(__cvta_generic_to_shared(ups));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(flag) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(flag), "r"(2 * bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(a), "l"(gate), "r"(bytes), "r"(flag) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(b), "l"(up), "r"(bytes), "r"(flag) : "memory");
  }
  __syncthreads();
  for (unsigned done = 0; !done;)
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(flag) : "memory");
  for (int i = threadIdx.x; i < count; i += 128) gates[i] = silu(gates[i], ups[i]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(a), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
  }
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(tokens), unsigned((d + kPiece - 1) / kPiece));
  if (dtype == 0) pieces<<<grid, 128, 0, stream>>>((float*)out, (const float*)input, d);
  else if (dtype == 1) pieces<<<grid, 128, 0, stream>>>((__half*)out, (const __half*)input, d);
  else pieces<<<grid, 128, 0, stream>>>((__nv_bfloat16*)out, (const __nv_bfloat16*)input, d);
  return cudaGetLastError();
}
