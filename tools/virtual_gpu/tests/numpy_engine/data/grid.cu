// Kernels whose blocks wait for each other: cooperative launches. Lines of bugs end in "// BUG".
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void neighbours(int *out, int *room, int n, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const int i = grid.thread_rank();
  for (int r = 0; r < rounds; r++) {
    room[i] = out[i] + i;
    grid.sync();
    out[i] = room[(i + 1) % n] + room[(i + n - 1) % n];
    grid.sync();
  }
}

extern "C" __global__ void forgets_second_sync(int *out, int *room, int n, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const int i = grid.thread_rank();
  for (int r = 0; r < rounds; r++) {
    room[i] = out[i] + i + r;  // BUG
    grid.sync();
    out[i] = room[(i + 1) % n] + room[(i + n - 1) % n];
  }
}

extern "C" __global__ void some_leave(int *out, int n) {
  cg::grid_group grid = cg::this_grid();
  if (grid.block_rank() == 2) return;
  out[grid.thread_rank()] = n;
  grid.sync();  // BUG
}

extern "C" __global__ void waits_for_last(int *out, volatile int *flag) {
  __shared__ int seen;
  if (threadIdx.x == 0) {
    if (blockIdx.x + 1 == gridDim.x) {
      *flag = 7;
      __threadfence();
    }
    while (*flag != 7) { }
    seen = *flag;
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = seen * threadIdx.x;
}

extern "C" __global__ void takes_turns(unsigned *lock, unsigned *sum) {
  if (threadIdx.x % 32 == 0) {
    while (atomicCAS(lock, 0u, 1u) != 0u) { }
    __threadfence();
    *(volatile unsigned *)sum = *(volatile unsigned *)sum * 3 + 1;
    __threadfence();
    atomicExch(lock, 0u);
  }
  __syncwarp();
  const unsigned five = __shfl_sync(~0u, 5u, 3);
  if (threadIdx.x == 33) atomicAdd(sum + 1, five);
}

// Each block moves its tile one place down, into what the block before has read: it waits for that one's flag.
extern "C" __global__ void moves_down(int *data, volatile int *flags, int waits) {
  const int mine = data[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    flags[blockIdx.x] = 1;
    if (blockIdx.x > 0 && waits) while (flags[blockIdx.x - 1] == 0) { }
  }
  __syncthreads();
  if (blockIdx.x > 0 || threadIdx.x > 0) data[blockIdx.x * blockDim.x + threadIdx.x - 1] = mine;
}

// Tiles of several warps: they meet in shared memory that is not the kernel's own.
template <int TILE> __device__ void tile_sums(int *out) {
  __shared__ int turned[256];
  auto tile = cg::tiled_partition<TILE>(cg::this_thread_block());
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int round = 0; round < 3; round++) {
    turned[threadIdx.x] = i * round;
    tile.sync();
    const int other = turned[threadIdx.x ^ (TILE - 1)];
    out[i] += cg::reduce(tile, other, cg::plus<int>());
    tile.sync();
  }
}
extern "C" __global__ void tiles_of_64(int *out) { tile_sums<64>(out); }
extern "C" __global__ void tiles_of_128(int *out) { tile_sums<128>(out); }

// The first block waits for the last one's flag, and gives up after a while.
extern "C" __global__ void gives_up(int *out, volatile int *flag, int set, long long cycles) {
  __shared__ int seen;
  if (threadIdx.x == 0 && set && blockIdx.x + 1 == gridDim.x) {
    __nanosleep(500);
    *flag = 7;
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    const long long start = clock64();
    while (*flag != 7 && clock64() - start < cycles) { }
    seen = *flag;
  }
  __syncthreads();
  if (blockIdx.x == 0) out[threadIdx.x] = seen;
}

// In an ordinary launch: a warp spins until another of its block has stored a flag, before or behind it in the code.
extern "C" __global__ void spins(int *out, volatile int *flag, int who, int early) {
  __shared__ volatile int ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  if (early && warp != who && threadIdx.x % 32 == 0) *flag = 5, ready = 7;
  if (warp == who) { while (ready == 0 || *flag == 0) { } }
  int sum = 0;
  for (int i = 0; i < 50; ++i) sum = sum * 3 + threadIdx.x % 32;
  out[threadIdx.x] = warp == who ? ready + *flag : __shfl_sync(~0u, sum, 0);
  if (!early && warp != who && threadIdx.x % 32 == 0) *flag = 5, ready = 7;
}
