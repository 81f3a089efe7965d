"""silu(gate) * up: a block of columns of one token a program."""

import triton
import triton.language as tl


@triton.jit
def silu_kernel(out_ptr, input_ptr, d, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < d
    row = input_ptr + token * 2 * d
    gate = tl.load(row + columns, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(row + d + columns, mask=mask, other=0.0).to(tl.float32)
    y = gate / (1.0 + tl.exp(-gate)) * up
    tl.store(out_ptr + token * d + columns, y.to(out_ptr.dtype.element_ty), mask=mask)


def silu_and_mul(out, input, tokens, d):
    BLOCK = 512
    silu_kernel[(tokens, triton.cdiv(d, BLOCK))](out, input, d, BLOCK=BLOCK, num_warps=4)
