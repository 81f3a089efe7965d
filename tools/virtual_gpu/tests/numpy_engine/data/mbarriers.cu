// Barriers in shared memory and bulk copies, through the toolkit's own headers and as PTX.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_awbarrier_primitives.h>
#define KERNEL(name) extern "C" __global__ void name(float* out, const float* in, int n)
#define AT(x) unsigned(__cvta_generic_to_shared(x))
namespace cg = cooperative_groups;
namespace device = cuda::device::experimental;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

KERNEL(barrier_sum) {
  __shared__ Barrier bar;
  __shared__ float tile[128];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < n; i++) {
    tile[threadIdx.x] = in[(blockIdx.x * n + i) * 128 + threadIdx.x];
    bar.arrive_and_wait();
    sum += tile[127 - threadIdx.x];
    auto token = bar.arrive();
    bar.wait(std::move(token));
  }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}
KERNEL(dropped) {
  __shared__ Barrier bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  if (threadIdx.x >= 64) {
    bar.arrive_and_drop();
    return;
  }
  bar.arrive_and_wait();
  out[threadIdx.x] = bar.try_wait_for(bar.arrive(), cuda::std::chrono::nanoseconds(1000));
}
KERNEL(gives_up) {
  __shared__ Barrier bar;
  if (threadIdx.x == 0) init(&bar, blockDim.x + 1);
  __syncthreads();
  out[threadIdx.x] = 7 + bar.try_wait_for(bar.arrive(), cuda::std::chrono::nanoseconds(1000));
}
KERNEL(copied_by_block) {
  __shared__ alignas(16) float tile[512];
  __shared__ Barrier bar;
  auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  block.sync();
  for (int i = 0; i < n; i++) {
    cuda::memcpy_async(block, tile, in + i * 512, cuda::aligned_size_t<16>(sizeof tile), bar);
    bar.arrive_and_wait();
    for (int k = threadIdx.x; k < 512; k += blockDim.x) out[k] += tile[511 - k];
    block.sync();
  }
}
KERNEL(block_pipeline) {
  constexpr int stages = 2;
  __shared__ alignas(16) float tile[stages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  float sum = 0;
  for (int i = 0, ahead = 0; i < n; i++) {
    for (; ahead < n && ahead < i + stages; ahead++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, tile[ahead % stages], in + ahead * 128, cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += tile[i % stages][127 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
KERNEL(roles) {
  constexpr int stages = 2;
  __shared__ alignas(16) float tile[stages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  const bool produces = threadIdx.x < 32;
  auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state,
                                  produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  float sum = 0;
  for (int i = 0; i < n; i++)
    if (produces) {
      pipe.producer_acquire();
      for (int k = threadIdx.x; k < 128; k += 32)
        cuda::memcpy_async(&tile[i % stages][k], in + i * 128 + k, sizeof(float), pipe);
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      sum += tile[i % stages][threadIdx.x * 7 & 127];
      pipe.consumer_release();
    }
  out[threadIdx.x] = sum;
}
KERNEL(primitives) {
  __shared__ __mbarrier_t bar;
  __shared__ float tile[128];
  if (threadIdx.x == 0) __mbarrier_init(&bar, blockDim.x);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __mbarrier_token_t token = __mbarrier_arrive(&bar);
  out[128 + threadIdx.x] = __mbarrier_token_pending_count(token);
  while (!__mbarrier_test_wait(&bar, token)) {}
  out[threadIdx.x] = tile[127 - threadIdx.x];
  if (threadIdx.x == 1) token = __mbarrier_arrive_and_drop(&bar);
  else token = __mbarrier_arrive(&bar);
  while (!__mbarrier_try_wait(&bar, token, 100)) {}
  if (threadIdx.x != 1) {
    __mbarrier_arrive(&bar);
    while (!__mbarrier_test_wait_parity(&bar, 0)) {}
    __mbarrier_arrive(&bar);
    while (!__mbarrier_try_wait_parity(&bar, 1, 20)) {}
    out[threadIdx.x] += 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) __mbarrier_inval(&bar);
}
KERNEL(there_and_back) {
  __shared__ alignas(128) float tile[512];
  __shared__ Barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    device::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(tile, in + blockIdx.x * 512, cuda::aligned_size_t<16>(sizeof tile), bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int k = threadIdx.x; k < 512; k += blockDim.x) tile[k] += 1;
  device::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    device::cp_async_bulk_shared_to_global(out + blockIdx.x * 512, tile, sizeof tile);
    device::cp_async_bulk_commit_group();
    device::cp_async_bulk_wait_group_read<0>();
  }
}
// Warp 0 fetches tiles by bulk copies, the others take them: an mbarrier each way for each stage.
KERNEL(specialised) {
  __shared__ alignas(128) float tile[2][256];
  __shared__ alignas(8) unsigned long long full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; s++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(AT(&full[s])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 3;" ::"r"(AT(&empty[s])));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < n; i++) {
    const int s = i & 1, parity = i >> 1 & 1;
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0) {
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                     ::"r"(AT(&empty[s])), "r"(parity ^ 1) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(AT(&full[s])) : "memory");
        for (int half = 0; half < 2; half++)
          asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
                       ::"r"(AT(tile[s] + 128 * half)), "l"(in + i * 256 + 128 * half), "r"(AT(&full[s])) : "memory");
      }
    } else {
      asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1, 100; @!p bra again; }"
                   ::"r"(AT(&full[s])), "r"(parity) : "memory");
      for (int k = threadIdx.x - 32; k < 256; k += 96) sum += tile[s][k];
      __syncwarp();
      if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(AT(&empty[s])) : "memory");
    }
  }
  out[threadIdx.x] = sum;
}
KERNEL(reductions) {
  __shared__ alignas(16) float tile[32];
  __shared__ alignas(16) int counts[32];
  tile[threadIdx.x] = in[threadIdx.x];
  counts[threadIdx.x] = threadIdx.x - 16;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 128;"
                 ::"l"(out), "r"(AT(tile)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%0], [%1], 128;"
                 ::"l"(out + 32), "r"(AT(counts)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [%0], [%1], 128;"
                 ::"l"(out + 64), "r"(AT(counts)) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b64 [%0], [%1], 128;"
                 ::"l"(out + 96), "r"(AT(counts)) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], 128;" ::"l"(in) : "memory");
  }
}
KERNEL(noinc) {
  __shared__ float tile[128];
  __shared__ alignas(8) unsigned long long bar[2];
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.b64 [%0], 128;" ::"l"(&bar[0]));
    asm volatile("mbarrier.init.b64 [%0], 128;" ::"l"(&bar[1]));
  }
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(AT(tile + threadIdx.x)), "l"(in + threadIdx.x) : "memory");
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(AT(&bar[0])) : "memory");
  asm volatile("{ .reg .pred p; again: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra again; }"
               ::"r"(AT(&bar[0])) : "memory");
  const float first = tile[127 - threadIdx.x];
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(AT(tile + threadIdx.x)), "l"(in + 128 + threadIdx.x) : "memory");
  asm volatile("cp.async.mbarrier.arrive.b64 [%0];" ::"l"(&bar[1]) : "memory");
  asm volatile("{ .reg .b64 t; .reg .pred p; mbarrier.arrive.b64 t, [%0];\n"
               "again: mbarrier.test_wait.b64 p, [%0], t; @!p bra again; }" ::"l"(&bar[1]) : "memory");
  out[threadIdx.x] = first + 2 * tile[127 - threadIdx.x];
}
// One lane of each warp meets those of the others; the rest wait for it at __syncwarp().
KERNEL(elected) {
  __shared__ Barrier bar;
  __shared__ float tile[128];
  if (threadIdx.x == 0) init(&bar, 4);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < n; i++) {
    tile[threadIdx.x] = in[i * 128 + threadIdx.x];
    __syncwarp();
    if (threadIdx.x % 32 == 0) bar.arrive_and_wait();
    __syncwarp();
    sum += tile[127 - threadIdx.x];
    __syncwarp();
    if (threadIdx.x % 32 == 0) bar.arrive_and_wait();
    __syncwarp();
  }
  out[threadIdx.x] = sum;
}
// Lanes of one warp bring each other what they wait for, and never meet.
KERNEL(split_warp) {
  __shared__ alignas(8) unsigned long long ping, pong;
  __shared__ volatile float ball;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(AT(&ping)));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(AT(&pong)));
    ball = in[0];
  }
  __syncthreads();
  const bool first = threadIdx.x == 0;
  if (threadIdx.x < 2)
    for (int i = 0; i < n; i++) {
      if (!first || i > 0)
        asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                     ::"r"(first ? AT(&pong) : AT(&ping)), "r"((first ? i - 1 : i) & 1) : "memory");
      ball = ball * 2 + first;
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(first ? AT(&ping) : AT(&pong)) : "memory");
    }
  __syncthreads();
  out[threadIdx.x] = ball;
}
// One mbarrier, one way to misuse it: how = n.
KERNEL(misuse) {
  __shared__ alignas(16) float tile[64];
  __shared__ alignas(16) unsigned long long bars[2];
  unsigned long long& bar = bars[0];
  if (threadIdx.x == 0 && n != 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(AT(&bar)), "r"(n == 1 ? 0 : 32));
  if (n != 7 && n != 17) __syncthreads();
  unsigned long long token = 0;
  if (n == 5) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(AT(&bar)));
  if (n == 0 || n == 5 || n == 7) asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(AT(&bar)));
  if (n == 2) asm volatile("mbarrier.arrive.shared.b64 %0, [%1], 33;" : "=l"(token) : "r"(AT(&bar)));
  if (n == 3) asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(token) : "r"(AT(&bar)));
  if (n == 4)
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], 1048575;" ::"r"(AT(&bar)));
  if (n == 6) asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(AT(&bar) + 4));
  if (n >= 8 && n < 14 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     AT(tile) + (n == 8 ? 8 : n == 11 ? 32 : 0)),
                 "l"(in + (n == 9 ? 1 : n == 12 ? 16 : 0)), "r"(n == 10 ? 24 : 256), "r"(AT(&bar) + (n == 13) * 4) : "memory");
  if (n == 14 || n == 15) {
    tile[threadIdx.x % 32] = 1;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;\ncp.async.bulk.commit_group;" ::"l"(out), "r"(AT(tile)) : "memory");
    if (n == 15) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncthreads();
    tile[threadIdx.x % 32] = 2;
  }
  if (n == 16 && threadIdx.x == 0)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;\ncp.async.bulk.commit_group;" ::"l"(out), "r"(AT(tile)) : "memory");
  if (n == 18) {  // data that look like one
    bars[1] = 1ull << 62;
    asm volatile("{\n.reg .pred over;\nmbarrier.test_wait.parity.shared.b64 over, [%0], 1;\n}" ::"r"(AT(&bars[1])) : "memory");
  }
  if (n == 17) {  // every lane of the first warp arrives, and the second waits for them
    if (threadIdx.x < 32) asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(AT(&bar)));
    else
      asm volatile("{\n.reg .pred over;\nagain: mbarrier.try_wait.parity.shared.b64 over, [%0], 0;\n@!over bra again;\n}" ::"r"(AT(&bar)) : "memory");
  }
  if (n != 16 || threadIdx.x >= 32) out[threadIdx.x] = token;
}

// A producer warp fills two buffers in turn for a consumer warp: named barriers, where one side only
// tells that it came (bar.arrive).
extern "C" __global__ void named_barriers(const int *in, int *out, int rounds) {
  __shared__ int buffer[2][32];
  const int lane = threadIdx.x % 32;
  const bool produces = threadIdx.x < 32;
  for (int round = 0; round < rounds; ++round) {
    const int which = round % 2, full = 1 + which, empty = 3 + which;
    if (produces) {
      if (round >= 2) asm volatile("bar.sync %0, 64;" ::"r"(empty) : "memory");
      buffer[which][lane] = in[round * 32 + lane];
      asm volatile("bar.arrive %0, 64;" ::"r"(full) : "memory");
    } else {
      asm volatile("bar.sync %0, 64;" ::"r"(full) : "memory");
      out[round * 32 + lane] = 2 * buffer[which][31 - lane];
      if (round + 2 < rounds) asm volatile("bar.arrive %0, 64;" ::"r"(empty) : "memory");
    }
  }
}
