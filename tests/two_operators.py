"""A user's file with two operators, of which a task is about one."""

from __future__ import annotations

from pathlib import Path

SILU = Path(__file__).parent / "astra_chat" / "optimize" / "silu"
MODULE = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
SECOND = """\
__device__ __constant__ float kLimits[2] = {-6.0f, 6.0f};
constexpr int kThreads = 64;

__device__ __noinline__ float limited(float value) {
  return value < kLimits[0] ? kLimits[0] : value > kLimits[1] ? kLimits[1] : value;
}

__global__ void limit_kernel(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = limited(x[i]);
}

int threads() { return kThreads; }

void limit(torch::Tensor& x) {
  limit_kernel<<<1, threads(), 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(),
                                                                     x.numel());
}

"""


def with_second(source: str) -> str:
    """A file of the sample with a second operator, `limit`."""
    assert source.count(MODULE) == 1
    return source.replace(MODULE, f'{SECOND}{MODULE} m.def("limit", &limit); ')


def sample(name: str) -> str:
    """The sample's baseline, activation.cu, or a faster kernel, vectors.cu, with both operators."""
    return with_second((SILU / name).read_text())
