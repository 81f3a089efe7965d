// A grid-wide sum in two phases, and a stencil that goes back and forth between two arrays, in one cooperative launch.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
namespace cg = cooperative_groups;
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
  fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, cudaGetErrorName(e), cudaGetErrorString(e)); exit(1); } } while (0)

__global__ void heat(float *a, float *b, int n, int steps, double *partial, double *total) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  for (int s = 0; s < steps; s++) {
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.num_threads()) {
      float l = i ? a[i - 1] : 0.f, r = i + 1 < n ? a[i + 1] : 0.f;
      b[i] = 0.25f * l + 0.5f * a[i] + 0.25f * r;
    }
    grid.sync();
    float *t = a; a = b; b = t;
  }
  __shared__ double warp_sums[32];
  double mine = 0;
  for (unsigned long long i = grid.thread_rank(); i < n; i += grid.num_threads()) mine += a[i];
  auto tile = cg::tiled_partition<32>(block);
  mine = cg::reduce(tile, mine, cg::plus<double>());
  if (tile.thread_rank() == 0) warp_sums[tile.meta_group_rank()] = mine;
  block.sync();
  if (block.thread_rank() == 0) {
    double sum = 0;
    for (int w = 0; w < tile.meta_group_size(); w++) sum += warp_sums[w];
    partial[blockIdx.x] = sum;
  }
  grid.sync();
  if (grid.thread_rank() == 0) {
    double sum = 0;
    for (unsigned g = 0; g < gridDim.x; g++) sum += partial[g];
    *total = sum;
  }
}

int main() {
  int device = 0, supports = 0, per_sm = 0;
  CHECK(cudaDeviceGetAttribute(&supports, cudaDevAttrCooperativeLaunch, device));
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, device));
  if (!supports || !prop.cooperativeLaunch) { printf("no cooperative launch\n"); return 2; }
  int n = 5000, steps = 5, threads = 128;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, heat, threads, 0));
  std::vector<float> h(n), want(n), next(n);
  for (int i = 0; i < n; i++) want[i] = h[i] = (i * 37 % 101) / 16.f;
  for (int s = 0; s < steps; s++) {
    for (int i = 0; i < n; i++) next[i] = 0.25f * (i ? want[i-1] : 0.f) + 0.5f * want[i] + 0.25f * (i + 1 < n ? want[i+1] : 0.f);
    want.swap(next);
  }
  float *a, *b; double *partial, *total;
  CHECK(cudaMalloc(&a, n * 4)); CHECK(cudaMalloc(&b, n * 4));
  int blocks = per_sm * prop.multiProcessorCount;
  CHECK(cudaMalloc(&partial, blocks * 8)); CHECK(cudaMalloc(&total, 8));
  CHECK(cudaMemcpy(a, h.data(), n * 4, cudaMemcpyHostToDevice));
  void *args[] = {&a, &b, &n, &steps, &partial, &total};
  dim3 few(12), block(threads);
  CHECK(cudaLaunchCooperativeKernel((void *)heat, few, block, args, 0, 0));
  CHECK(cudaDeviceSynchronize());
  double sum = 0, expected = 0;
  CHECK(cudaMemcpy(h.data(), steps % 2 ? b : a, n * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&sum, total, 8, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; i++) { wrong += h[i] != want[i]; expected += want[i]; }
  printf("wrong %d, sum %s\n", wrong, fabs(sum - expected) < 1e-6 * expected ? "right" : "WRONG");
  dim3 many(blocks + 1);
  cudaError_t e = cudaLaunchCooperativeKernel((void *)heat, many, block, args, 0, 0);
  printf("one too many: %s\n", cudaGetErrorString(e));
  printf("last: %s\n", cudaGetErrorName(cudaGetLastError()));
  cudaLaunchConfig_t config = {};
  config.gridDim = few, config.blockDim = block;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeCooperative, attribute[0].val.cooperative = 1;
  config.attrs = attribute, config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, heat, a, b, n, steps, partial, total));
  CHECK(cudaFree(a)); CHECK(cudaFree(b)); CHECK(cudaFree(partial)); CHECK(cudaFree(total));
  return wrong != 0;
}
