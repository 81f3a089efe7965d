// A launcher over two types: rows of a table, looked up by indices of 32 or 64 bits.
#include <cuda_fp16.h>

#include <cstdint>

template <typename DType, typename IdType>
__global__ void embedding_kernel(DType* out, const DType* table, const IdType* indices, int dim) {
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    out[static_cast<int64_t>(blockIdx.x) * dim + i] =
        table[static_cast<int64_t>(indices[blockIdx.x]) * dim + i];
  }
}

template <typename DType, typename IdType>
void embedding(DType* out,             // [num_tokens, dim]
               const DType* table,     // [vocab_size, dim]
               const IdType* indices,  // [num_tokens]
               int num_tokens, int dim, int vocab_size, cudaStream_t stream) {
  if (num_tokens == 0) return;
  embedding_kernel<DType, IdType><<<num_tokens, 128, 0, stream>>>(out, table, indices, dim);
}
