// PTX of mbarriers and bulk copies as functions: a fault's line is then the caller's.
#pragma once
#include <cstdint>

__device__ inline unsigned at(const void* shared) { return unsigned(__cvta_generic_to_shared(shared)); }
__device__ inline void init(uint64_t* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(barrier)), "r"(count) : "memory");
}
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(barrier)) : "memory");
}
__device__ inline void expect(uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(barrier)), "r"(bytes) : "memory");
}
__device__ inline void wait(uint64_t* barrier, unsigned parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; @!done bra again; }" ::"r"(
          at(barrier)),
      "r"(parity)
      : "memory");
}
__device__ inline void fetch(void* to, const void* from, unsigned bytes, uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)),
               "l"(from), "r"(bytes), "r"(at(barrier))
               : "memory");
}
__device__ inline void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ inline void put_without_fence(void* to, const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to),
               "r"(at(from)), "r"(bytes)
               : "memory");
}
__device__ inline void put(void* to, const void* from, unsigned bytes) {
  fence();
  put_without_fence(to, from, bytes);
}
__device__ inline void wait_for_reads() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void wait_for_copies() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
