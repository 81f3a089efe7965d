"""A sum over experts: a block of columns of one token a program."""

import triton
import triton.language as tl


@triton.jit
def moe_sum_reduce_kernel(input_ptr, output_ptr, experts, hidden, scale, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < hidden
    row = input_ptr + token * experts * hidden + columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for expert in range(experts):
        total += tl.load(row + expert * hidden, mask=mask, other=0.0).to(tl.float32)
    y = total * scale
    tl.store(output_ptr + token * hidden + columns, y.to(output_ptr.dtype.element_ty), mask=mask)


def moe_sum_reduce(input, output, tokens, experts, hidden, scale):
    BLOCK = 256 if tokens <= 128 else 1024
    grid = (tokens, triton.cdiv(hidden, BLOCK))
    moe_sum_reduce_kernel[grid](input, output, experts, hidden, scale, BLOCK=BLOCK, num_warps=4)
