// What calls of the CUDA runtime answer, right and wrong ones; answers.txt: what an H200 answered on 2026-11-21, CUDA 13.0.
#include <cstdio>
__global__ void ok(int*p){ if(p) p[0]=1; }
__global__ __launch_bounds__(64) void bounded(int*p){ }
__global__ void bad(int*p){ *(int*)8=1; }
#define S(x) printf("%-28s %s\n",#x,cudaGetErrorName(x))
int main() {
  int*d=0;
  S(cudaMalloc(&d,256));
  ok<<<0,32>>>(d);
  printf("zero grid: %s\n",cudaGetErrorName(cudaGetLastError()));
  ok<<<1,0>>>(d);
  printf("zero block: %s\n",cudaGetErrorName(cudaGetLastError()));
  ok<<<1,1025>>>(d);
  printf("1025: %s\n",cudaGetErrorName(cudaGetLastError()));
  ok<<<1,dim3(1,1,65)>>>(d);
  printf("z 65: %s\n",cudaGetErrorName(cudaGetLastError()));
  ok<<<dim3(1,65536),1>>>(d);
  printf("grid y 65536: %s\n",cudaGetErrorName(cudaGetLastError()));
  ok<<<1,32,50000>>>(d);
  printf("50000 dyn: %s\n",cudaGetErrorName(cudaGetLastError())); bounded<<<1,96>>>(d);
  printf("bounds: %s\n",cudaGetErrorName(cudaGetLastError()));
 S(cudaFuncSetAttribute(ok,cudaFuncAttributeMaxDynamicSharedMemorySize,300000));
  S(cudaFuncSetAttribute(ok,cudaFuncAttributeMaxDynamicSharedMemorySize,232448));
  ok<<<1,32,232448>>>(d);
  printf("227 KB: %s\n",cudaGetErrorName(cudaGetLastError()));
  S(cudaMemcpy(d,d+1000,4,cudaMemcpyDeviceToHost));
  S(cudaFree((void*)0x123));
  S(cudaFree(0));
  S(cudaSetDevice(7));
  S(cudaMemset(d,0,512));
  S(cudaMemcpy(d,(void*)0,4,cudaMemcpyHostToDevice));
  cudaEvent_t a,b;
  cudaEventCreate(&a);cudaEventCreate(&b); float t;
  S(cudaEventElapsedTime(&t,a,b)); int n;
  S(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n,ok,256,0));
  printf("occ %d\n",n);
  S(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n,ok,2048,0)); int g,bl;
  S(cudaOccupancyMaxPotentialBlockSize(&g,&bl,ok,0,0));
  printf("%d %d\n",g,bl);
  cudaFuncAttributes f;
  S(cudaFuncGetAttributes(&f,bounded));
  printf("max %d regs %d\n",f.maxThreadsPerBlock,f.numRegs);
  S(cudaPeekAtLastError());
  S(cudaMemcpy2D(d,4,d,8,8,2,cudaMemcpyDeviceToDevice));
  S(cudaMemcpyAsync(d,d,4,(cudaMemcpyKind)9,0));
  S(cudaEventQuery(a));
  S(cudaEventRecord(a));
  S(cudaEventSynchronize(a));
  S(cudaEventElapsedTime(&t,a,b));
  cudaPointerAttributes pa;
  S(cudaPointerGetAttributes(&pa,&t));
  printf("type %d\n",pa.type);
  S(cudaPointerGetAttributes(&pa,d+3));
  printf("type %d\n",pa.type); void*q;
  S(cudaMalloc(&q,1ull<<45));
  S(cudaMalloc(&q,0));
  printf("%d\n",q==0);
  S(cudaHostAlloc(&q,16,99));
  S(cudaMallocManaged(&q,16,7));
  cudaStream_t st;
  S(cudaStreamCreateWithFlags(&st,9));
  S(cudaStreamCreateWithPriority(&st,0,-99));
  S(cudaStreamQuery(st));
  cudaGraph_t gr;
  S(cudaStreamEndCapture(st,&gr));
  S(cudaStreamBeginCapture(st,cudaStreamCaptureModeGlobal));
  S(cudaStreamSynchronize(st));
  S(cudaMalloc(&q,16));
  S(cudaStreamEndCapture(st,&gr));
  S(cudaGetLastError());
  S(cudaFuncSetAttribute(ok,cudaFuncAttributePreferredSharedMemoryCarveout,101));
  S(cudaFuncSetAttribute(ok,cudaFuncAttributeMaxDynamicSharedMemorySize,-1));
  S(cudaMemcpyToSymbol((const void*)&t,&n,4));
  S(cudaDeviceSetLimit(cudaLimitMallocHeapSize,1<<24));
  S(cudaDeviceGetAttribute(&n,(cudaDeviceAttr)9999,0));
  S(cudaGetLastError());
 bad<<<1,1>>>(d);
  S(cudaDeviceSynchronize());
  S(cudaGetLastError());
  S(cudaMalloc(&d,4));
  S(cudaDeviceSynchronize());
  ok<<<1,1>>>(d);
  S(cudaGetLastError()); }
