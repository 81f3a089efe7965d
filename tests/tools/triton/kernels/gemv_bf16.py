"""A matrix-vector product on tensor cores: 64 columns of y a program."""

import triton
import triton.language as tl


@triton.jit
def gemv_kernel(y_ptr, x_ptr, w_ptr, m, n, k, N: tl.constexpr, K: tl.constexpr):
    columns = tl.program_id(0) * N + tl.arange(0, N)
    rows = tl.arange(0, 16)
    total = tl.zeros([N, 16], dtype=tl.float32)
    for start in range(0, k, K):
        at = start + tl.arange(0, K)
        w_mask = (columns < n)[:, None] & (at < k)[None, :]
        places = columns.to(tl.int64)[:, None] * k + at[None, :]
        w = tl.load(w_ptr + places, mask=w_mask, other=0.0)
        x_mask = (at < k)[:, None] & (rows < m)[None, :]
        x = tl.load(x_ptr + rows[None, :] * k + at[:, None], mask=x_mask, other=0.0)
        total = tl.dot(w, x, total)
    places = rows[None, :] * n + columns[:, None]
    mask = (columns < n)[:, None] & (rows < m)[None, :]
    tl.store(y_ptr + places, total.to(y_ptr.dtype.element_ty), mask=mask)


def gemv_bf16(y, x, w, m, n, k):
    gemv_kernel[(triton.cdiv(n, 64),)](y, x, w, m, n, k, N=64, K=64, num_warps=4, num_stages=2)
