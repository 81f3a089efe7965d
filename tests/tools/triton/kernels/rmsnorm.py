"""RMSNorm: a row a program."""

import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(
    out_ptr, input_ptr, weight_ptr, h, out_stride, input_stride, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < h
    x = tl.load(input_ptr + row * input_stride + columns, mask=mask, other=0.0).to(tl.float32)
    w = tl.load(weight_ptr + columns, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / h + eps)
    y = x * scale * w
    tl.store(out_ptr + row * out_stride + columns, y.to(out_ptr.dtype.element_ty), mask=mask)


def rmsnorm(out, input, weight, tokens, h, out_stride, input_stride, eps):
    BLOCK = max(triton.next_power_of_2(h), 64)
    rmsnorm_kernel[(tokens,)](
        out,
        input,
        weight,
        h,
        out_stride,
        input_stride,
        eps,
        BLOCK=BLOCK,
        num_warps=4 if BLOCK <= 4096 else 16,
    )
