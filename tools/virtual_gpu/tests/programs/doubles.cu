// Double-precision tensor cores: wmma's fragments in a tiled product, and mma.sync of two shapes in inline PTX.
#include <cmath>
#include <cstdio>
#include <mma.h>
#include <vector>
using namespace nvcuda;

__global__ void tiles(const double *a, const double *b, double *c, int n, double alpha) {
  int row = blockIdx.y * 8, column = blockIdx.x * 8;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> sum, old;
  wmma::fill_fragment(sum, 0.0);
  for (int k = 0; k < n; k += 4) {
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> right;
    wmma::load_matrix_sync(left, a + row * n + k, n);
    wmma::load_matrix_sync(right, b + column * n + k, n);
    wmma::mma_sync(sum, left, right, sum);
  }
  wmma::load_matrix_sync(old, c + row * n + column, n, wmma::mem_row_major);
  for (int i = 0; i < sum.num_elements; i++) old.x[i] += alpha * sum.x[i];
  wmma::store_matrix_sync(c + row * n + column, old, n, wmma::mem_row_major);
}

// 16 x 8 = (16 x 8) * (8 x 8) + c, with the fragments that the PTX ISA describes.
__global__ void one(const double *a, const double *b, double *c) {
  int group = threadIdx.x / 4, in = threadIdx.x % 4;
  double a0 = a[group * 8 + in], a1 = a[(group + 8) * 8 + in], a2 = a[group * 8 + in + 4], a3 = a[(group + 8) * 8 + in + 4];
  double b0 = b[in * 8 + group], b1 = b[(in + 4) * 8 + group], *d = c + group * 8 + in * 2;
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[64]), "+d"(d[65]) : "d"(a0), "d"(a1), "d"(a2), "d"(a3), "d"(b0), "d"(b1));
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(d[0]), "+d"(d[1]) : "d"(a0), "d"(b0));
}

int main() {
  const int n = 32;
  double *a, *b, *c;
  cudaMallocManaged(&a, n * n * 8); cudaMallocManaged(&b, n * n * 8); cudaMallocManaged(&c, n * n * 8);
  std::vector<double> want(n * n);
  for (int i = 0; i < n * n; i++) a[i] = sin(i), b[i] = cos(i * 0.7), c[i] = i * 0.25;
  int wrong = 0;
  for (int r = 0; r < n; r++) for (int q = 0; q < n; q++) {
    double s = 0;
    for (int k = 0; k < n; k++) s = fma(a[r * n + k], b[q * n + k], s);
    want[r * n + q] = fma(3.0, s, c[r * n + q]);
  }
  tiles<<<dim3(n / 8, n / 8), 32>>>(a, b, c, n, 3.0); cudaDeviceSynchronize();
  for (int i = 0; i < n * n; i++) wrong += c[i] != want[i];
  printf("tiles: %d wrong\n", wrong);
  for (int i = 0; i < 128; i++) c[i] = want[i] = i;
  for (int r = 0; r < 16; r++) for (int q = 0; q < 8; q++) for (int k = 0; k < 8; k++) want[r * 8 + q] = fma(a[r * 8 + k], b[k * 8 + q], want[r * 8 + q]);
  for (int r = 0; r < 8; r++) for (int q = 0; q < 8; q++) for (int k = 0; k < 4; k++) want[r * 8 + q] = fma(a[r * 8 + k], b[k * 8 + q], want[r * 8 + q]);
  one<<<1, 32>>>(a, b, c); cudaDeviceSynchronize();
  for (int i = 0; i < 128; i++) wrong += c[i] != want[i];
  printf("mma: %d wrong\n", wrong);
  cudaFree(a); cudaFree(b); cudaFree(c);
  return wrong != 0;
}
