// Several host threads, each with its own buffers and launches.
#include <cstdio>
#include <thread>
#include <vector>
__global__ void twice(int *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
static int wrong[4];
static void work(int who) {
  const int n = 1000 + who;
  std::vector<int> host(n), back(n);
  for (int turn = 0; turn < 12; turn++) {
    for (int i = 0; i < n; i++) host[i] = who + i + turn;
    int *device = nullptr;
    wrong[who] += cudaMalloc(&device, n * sizeof(int)) != cudaSuccess;
    wrong[who] += cudaMemcpy(device, host.data(), n * sizeof(int), cudaMemcpyHostToDevice) != cudaSuccess;
    twice<<<(n + 127) / 128, 128>>>(device, n);
    wrong[who] += cudaGetLastError() != cudaSuccess;
    wrong[who] += cudaMemcpy(back.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost) != cudaSuccess;
    for (int i = 0; i < n; i++) wrong[who] += back[i] != 2 * host[i];
    cudaFree(device);
  }
}
int main() {
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; who++) threads.emplace_back(work, who);
  for (std::thread &thread : threads) thread.join();
  printf("wrong %d %d %d %d\n", wrong[0], wrong[1], wrong[2], wrong[3]);
}
