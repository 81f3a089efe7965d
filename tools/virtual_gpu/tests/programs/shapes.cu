// Objects of classes with virtual functions, made and deleted by kernels; variables that host and device share.
#include <cstdio>

struct Shape {
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ explicit Square(float side) : side(side) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float radius) : radius(radius) {}
  __device__ float area() const override { return 3.f * radius * radius; }
};

__managed__ float total = 1;
__managed__ int sides[2] = {4, 0};
const int SHAPES = 10;

__global__ void make(Shape** shapes) {
  const int i = threadIdx.x;
  shapes[i] = i & 1 ? (Shape*)new Square(i) : (Shape*)new Circle(i);
  atomicAdd(&sides[1], i & 1 ? sides[0] : 0);
}
__global__ void sum(Shape** shapes) { atomicAdd(&total, shapes[threadIdx.x]->area()); }
__global__ void drop(Shape** shapes) { delete shapes[threadIdx.x]; }

int main() {
  Shape** shapes;
  cudaMalloc(&shapes, SHAPES * sizeof *shapes);
  total -= 1;
  make<<<1, SHAPES>>>(shapes);
  sum<<<1, SHAPES>>>(shapes);
  drop<<<1, SHAPES>>>(shapes);
  if (cudaDeviceSynchronize()) return 1;
  float expected = 0;
  for (int i = 0; i < SHAPES; ++i) expected += i & 1 ? i * i : 3 * i * i;
  cudaFree(shapes);
  return total == expected && sides[1] == 20 ? 0 : 2;
}
