// Kernels that allocate: lists of each thread, objects with virtual functions, buffers that one kernel leaves for the next.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
  printf("line %d %s\n", __LINE__, cudaGetErrorName(e)); exit(1); } } while (0)

struct Item { int value; Item *next; };
__global__ void lists(int *sums, int length) {
  Item *head = nullptr;
  for (int i = 0; i < length; i++) head = new Item{i * (int)threadIdx.x, head};
  int sum = 0;
  while (head) { Item *next = head->next; sum = sum * 3 + head->value; delete head; head = next; }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

struct Shape { __device__ virtual float area() const = 0; __device__ virtual ~Shape() {} };
struct Square : Shape { float a; __device__ Square(float a) : a(a) {} __device__ float area() const override { return a * a; } };
struct Circle : Shape { float r; __device__ Circle(float r) : r(r) {} __device__ float area() const override { return 3.f * r * r; } };
__global__ void shapes(float *areas) {
  Shape *shape = threadIdx.x % 2 ? (Shape *)new Circle(threadIdx.x) : (Shape *)new Square(threadIdx.x);
  areas[threadIdx.x] = shape->area();
  delete shape;
}

__device__ int *kept[64];
__global__ void make(int n) {
  __shared__ int *shared;
  if (threadIdx.x == 0) shared = (int *)malloc(n * blockDim.x * sizeof(int));
  __syncthreads();
  for (int i = 0; i < n; i++) shared[i * blockDim.x + threadIdx.x] = i + threadIdx.x;
  if (threadIdx.x == 0) kept[blockIdx.x] = shared;
}
__global__ void use(int *out, int n) { int s = 0; for (int i = 0; i < n; i++) s += kept[blockIdx.x][i * blockDim.x + threadIdx.x]; out[blockIdx.x * blockDim.x + threadIdx.x] = s; }
__global__ void drop() { if (threadIdx.x == 0) free(kept[blockIdx.x]); }
__global__ void greedy(int *ok) { ok[0] = malloc((size_t)1 << 40) == nullptr; ok[1] = malloc(1 << 20) != nullptr; }

__global__ void beyond(int n) { int *p = (int *)malloc(n * 4); p[n] = 1; free(p); }  // BUG beyond
__global__ void after(int n, int *out) { int *p = (int *)malloc(n * 4); p[0] = 3; free(p); *out = p[0]; }  // BUG after
__global__ void twice(int n) { int *p = (int *)malloc(n * 4); p[0] = n; free(p); free(p + n % 2 - 1); }  // BUG twice
__global__ void uninitialized(int n, int *out) { int *p = (int *)malloc(n * 4); *out = p[1]; free(p); }  // BUG uninitialized

int main(int argc, char **argv) {
  int *out; float *areas; CHECK(cudaMalloc(&out, 4096)); CHECK(cudaMallocManaged(&areas, 256));
  int host[1024], wrong = 0;
  if (argc > 1) {
    if (!strcmp(argv[1], "beyond")) beyond<<<1, 1>>>(9);
    if (!strcmp(argv[1], "after")) after<<<1, 1>>>(9, out);
    if (!strcmp(argv[1], "twice")) twice<<<1, 1>>>(9);
    if (!strcmp(argv[1], "uninitialized")) uninitialized<<<1, 1>>>(9, out);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    return 0;
  }
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 << 20));
  lists<<<2, 40>>>(out, 10);
  CHECK(cudaMemcpy(host, out, 80 * 4, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 80; t++) { int s = 0; for (int i = 9; i >= 0; i--) s = s * 3 + i * (t % 40); wrong += host[t] != s; }
  printf("lists %d\n", wrong);
  shapes<<<1, 64>>>(areas); CHECK(cudaDeviceSynchronize());
  for (int t = 0; t < 64; t++) wrong += areas[t] != (t % 2 ? 3.f * t * t : 1.f * t * t);
  printf("shapes %d\n", wrong);
  make<<<4, 64>>>(5); use<<<4, 64>>>(out, 5); drop<<<4, 64>>>();
  CHECK(cudaMemcpy(host, out, 256 * 4, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 256; t++) wrong += host[t] != 10 + 5 * (t % 64);
  printf("kept %d\n", wrong);
  greedy<<<1, 1>>>(out);
  CHECK(cudaMemcpy(host, out, 8, cudaMemcpyDeviceToHost));
  printf("greedy %d %d\n", host[0], host[1]);
  printf("%s\n", cudaGetErrorName(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20)));
  CHECK(cudaFree(out)); CHECK(cudaFree(areas));
  return wrong != 0;
}
