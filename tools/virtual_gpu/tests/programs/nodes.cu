// Graphs put together node by node, changed after their instantiation, and captured ones looked into.
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
  printf("line %d %s\n", __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

__global__ void scale(float *x, float by, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= by; }
__global__ void add(float *x, const float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += y[i]; }
__global__ void total(const float *x, float *sum, int n) {
  __shared__ float part[256];
  float s = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s += x[i];
  part[threadIdx.x] = s;
  __syncthreads();
  for (int d = 128; d; d /= 2) { if (threadIdx.x < d) part[threadIdx.x] += part[threadIdx.x + d]; __syncthreads(); }
  if (threadIdx.x == 0) *sum += part[0];
}
struct Seen { float *value; int times; };
static void CUDART_CB look(void *data) { Seen *seen = (Seen *)data; seen->times++; printf("host: %.1f\n", *seen->value); }

int main() {
  int n = 1000;
  float *x, *y, *sum, *pinned, by = 2.f;
  CHECK(cudaMalloc(&x, n * 4)); CHECK(cudaMalloc(&y, n * 4)); CHECK(cudaMalloc(&sum, 4)); CHECK(cudaMallocHost(&pinned, 4));
  std::vector<float> ones(n, 1.f);
  cudaGraph_t graph; CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t copy, fill, scaled, added, summed, back, host, nothing;
  cudaMemcpy3DParms cp = {};
  cp.srcPtr = make_cudaPitchedPtr(ones.data(), n * 4, n, 1);
  cp.dstPtr = make_cudaPitchedPtr(x, n * 4, n, 1);
  cp.extent = make_cudaExtent(n * 4, 1, 1);
  cp.kind = cudaMemcpyHostToDevice;
  cudaMemsetParams ms = {};
  ms.dst = y, ms.value = 0x40400000, ms.elementSize = 4, ms.width = n, ms.height = 1;  // 3.0f
  // The sum first, by its dependencies last.
  cudaKernelNodeParams kp = {};
  void *sum_args[] = {&x, &sum, &n};
  kp.func = (void *)total, kp.gridDim = dim3(1), kp.blockDim = dim3(256), kp.kernelParams = sum_args;
  CHECK(cudaGraphAddKernelNode(&summed, graph, nullptr, 0, &kp));
  CHECK(cudaGraphAddMemcpyNode(&copy, graph, nullptr, 0, &cp));
  CHECK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &ms));
  void *scale_args[] = {&x, &by, &n};
  kp.func = (void *)scale, kp.gridDim = dim3((n + 127) / 128), kp.blockDim = dim3(128), kp.kernelParams = scale_args;
  CHECK(cudaGraphAddKernelNode(&scaled, graph, &copy, 1, &kp));
  by = 77.f;  // the node has its own
  cudaGraphNode_t both[] = {scaled, fill};
  CHECK(cudaGraphAddEmptyNode(&nothing, graph, both, 2));
  void *add_args[] = {&x, &y, &n};
  kp.func = (void *)add, kp.kernelParams = add_args;
  CHECK(cudaGraphAddKernelNode(&added, graph, &nothing, 1, &kp));
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddDependencies(graph, &added, &summed, nullptr, 1));
#else
  CHECK(cudaGraphAddDependencies(graph, &added, &summed, 1));
#endif
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &summed, 1, pinned, sum, 4, cudaMemcpyDeviceToHost));
  Seen seen = {pinned, 0};
  cudaHostNodeParams hp = {look, &seen};
  CHECK(cudaGraphAddHostNode(&host, graph, &back, 1, &hp));
  size_t nodes = 0, roots = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes)); CHECK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  printf("%zu nodes, %zu roots\n", nodes, roots);
  cudaGraphExec_t exec; CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream; CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemset(sum, 0, 4));
  for (int i = 0; i < 2; i++) CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  float ten = 10.f; void *ten_args[] = {&x, &ten, &n};
  kp.func = (void *)scale, kp.kernelParams = ten_args;
  CHECK(cudaGraphExecKernelNodeSetParams(exec, scaled, &kp));
  CHECK(cudaGraphLaunch(exec, stream)); CHECK(cudaStreamSynchronize(stream));
  printf("looked %d times\n", seen.times);
  // A circle.
  cudaGraph_t circle; cudaGraphNode_t a, b; CHECK(cudaGraphCreate(&circle, 0));
  CHECK(cudaGraphAddEmptyNode(&a, circle, nullptr, 0)); CHECK(cudaGraphAddEmptyNode(&b, circle, &a, 1));
#if CUDART_VERSION >= 13000
  cudaGraphAddDependencies(circle, &b, &a, nullptr, 1);
#else
  cudaGraphAddDependencies(circle, &b, &a, 1);
#endif
  cudaGraphExec_t none;
  printf("circle: %s\n", cudaGetErrorString(cudaGraphInstantiate(&none, circle, 0)));
  // A captured graph, as a child, and updated by another of the same shape.
  cudaGraph_t captured, other, parent; cudaGraphNode_t child; cudaGraphExec_t whole;
  for (int v = 0; v < 2; v++) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(x, 0, n * 4, stream));
    add<<<8, 128, 0, stream>>>(x, y, n);
    scale<<<8, 128, 0, stream>>>(x, v ? 5.f : 3.f, n);
    CHECK(cudaStreamEndCapture(stream, v ? &other : &captured));
  }
  CHECK(cudaGraphGetNodes(captured, nullptr, &nodes));
  std::vector<cudaGraphNode_t> list(nodes);
  CHECK(cudaGraphGetNodes(captured, list.data(), &nodes));
  for (auto node : list) { cudaGraphNodeType t; CHECK(cudaGraphNodeGetType(node, &t)); printf("%s ", t == cudaGraphNodeTypeKernel ? "kernel" : t == cudaGraphNodeTypeMemset ? "memset" : "?"); }
  CHECK(cudaGraphCreate(&parent, 0));
  CHECK(cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, captured));
  CHECK(cudaGraphInstantiate(&whole, parent, 0)); CHECK(cudaGraphLaunch(whole, stream));
  CHECK(cudaMemcpy(ones.data(), x, n * 4, cudaMemcpyDeviceToHost));
  printf("child %.1f, ", ones[7]);
  cudaGraphExec_t run; CHECK(cudaGraphInstantiate(&run, captured, 0));
  cudaGraphExecUpdateResultInfo info; CHECK(cudaGraphExecUpdate(run, other, &info)); CHECK(cudaGraphLaunch(run, stream));
  CHECK(cudaMemcpy(ones.data(), x, n * 4, cudaMemcpyDeviceToHost));
  printf("updated %.1f, ", ones[7]);
  cudaError_t changed = cudaGraphExecUpdate(run, graph, &info);
  printf("%s %d\n", cudaGetErrorName(changed), info.result == cudaGraphExecUpdateErrorTopologyChanged);
  cudaGetLastError();
  for (cudaGraphExec_t each : {exec, run, whole}) CHECK(cudaGraphExecDestroy(each));
  for (cudaGraph_t g : {graph, captured, other, parent, circle}) CHECK(cudaGraphDestroy(g));
  CHECK(cudaStreamDestroy(stream)); CHECK(cudaFree(x)); CHECK(cudaFree(y)); CHECK(cudaFree(sum)); CHECK(cudaFreeHost(pinned));
  return 0;
}
