// Recursive device functions: Fibonacci, a tree, even and odd by each other, quicksort; and alloca.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
  fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

__host__ __device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__global__ void fibs(int *out) { out[threadIdx.x] = fib(threadIdx.x % 9); }

struct Node { int left, right; double value; };
// Each level hands the next a pointer to its own array.
__host__ __device__ double walk(const Node *tree, int at, int depth, int *seen) {
  if (at < 0) return 0;
  int mine[3] = {depth, seen[depth % 3], at};
  seen[(depth + 1) % 3] += 1;
  double left = walk(tree, tree[at].left, depth + 1, mine);
  double right = walk(tree, tree[at].right, depth + 1, mine);
  return left - 0.5 * right + tree[at].value * mine[depth % 3];
}
__global__ void walks(const Node *tree, double *out, int n) {
  int seen[3] = {1, 2, 3};
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = walk(tree, i, 0, seen) + seen[1];
}

__device__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 ? true : odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n == 0 ? false : even(n - 1); }
__global__ void parity(int *out) { out[threadIdx.x] = even(threadIdx.x) + 2 * odd(threadIdx.x); }

__device__ void quicksort(int *d, int low, int high) {
  if (low >= high) return;
  int pivot = d[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (d[i] < pivot) i++;
    while (d[j] > pivot) j--;
    if (i <= j) { int t = d[i]; d[i++] = d[j]; d[j--] = t; }
  }
  quicksort(d, low, j);
  quicksort(d, i, high);
}
__global__ void sort(int *d, int n) { quicksort(d + (blockIdx.x * blockDim.x + threadIdx.x) * n, 0, n - 1); }

__device__ __noinline__ int shuffled(int n, int seed) {
  short *p = (short *)alloca(n * sizeof(short));
  for (int i = 0; i < n; i++) p[i] = i * seed;
  int s = 0;
  for (int i = 0; i < n; i++) s = s * 3 + p[(i * 7) % n];
  return s;
}
__global__ void rooms(int *out) { int s = 0; for (int i = 0; i < 9; i++) s += shuffled(threadIdx.x * 4 + i + 1, i); out[threadIdx.x] = s; }

__device__ int down(int n) { volatile int keep[8]; keep[n & 7] = n; return n == 0 ? 0 : down(n - 1) * 3 + keep[n & 7]; }
__global__ void deep(int *out, int n) { out[threadIdx.x] = down(n); }

int main(int argc, char **argv) {
  int *out; CHECK(cudaMallocManaged(&out, 4096 * 4));
  int wrong = 0;
  if (argc > 1) { deep<<<1, 1>>>(out, 100000); printf("deep: %s\n", cudaGetErrorName(cudaDeviceSynchronize())); return 0; }
  fibs<<<1, 64>>>(out); CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++) wrong += out[i] != fib(i % 9);
  printf("fib %d\n", wrong);
  const int n = 100;
  std::vector<Node> tree(n);
  for (int i = 0; i < n; i++) tree[i] = {2 * i + 1 < n ? 2 * i + 1 : -1, 2 * i + 2 < n ? 2 * i + 2 : -1, i * 0.25};
  Node *t; double *v; CHECK(cudaMalloc(&t, n * sizeof(Node))); CHECK(cudaMallocManaged(&v, n * 8));
  CHECK(cudaMemcpy(t, tree.data(), n * sizeof(Node), cudaMemcpyHostToDevice));
  walks<<<4, 32>>>(t, v, n); CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < n; i++) { int seen[3] = {1, 2, 3}; double w = walk(tree.data(), i, 0, seen); wrong += v[i] != w + seen[1]; }
  printf("tree %d\n", wrong);
  parity<<<1, 40>>>(out); CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 40; i++) wrong += out[i] != 1 + i % 2;
  printf("parity %d\n", wrong);
  std::vector<int> all(4096), want;
  for (int i = 0; i < 4096; i++) out[i] = all[i] = (i * 7919 + i * i) % 1009;
  sort<<<2, 32>>>(out, 24); CHECK(cudaDeviceSynchronize());
  for (int r = 0; r < 64; r++) std::sort(all.begin() + 24 * r, all.begin() + 24 * r + 24);
  for (int i = 0; i < 4096; i++) wrong += out[i] != all[i];
  printf("sort %d\n", wrong);
  rooms<<<1, 32>>>(out); CHECK(cudaDeviceSynchronize());
  for (int x = 0; x < 32; x++) {
    int s = 0;
    for (int i = 0; i < 9; i++) {
      int m = x * 4 + i + 1, h = 0;
      for (int k = 0; k < m; k++) h = h * 3 + (short)((k * 7) % m * i);
      s += h;
    }
    wrong += out[x] != s;
  }
  printf("rooms %d\n", wrong);
  CHECK(cudaFree(out)); CHECK(cudaFree(t)); CHECK(cudaFree(v));
  return wrong != 0;
}
