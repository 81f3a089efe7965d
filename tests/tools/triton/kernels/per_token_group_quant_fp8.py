"""Groups of 128 quantized to e4m3: GROUPS groups a program, whatever row they are of."""

import triton
import triton.language as tl


@triton.jit
def quant_kernel(
    input_ptr, q_ptr, s_ptr, groups, total, token_stride, group_stride, GROUPS: tl.constexpr
):
    group = tl.program_id(0).to(tl.int64) * GROUPS + tl.arange(0, GROUPS)
    there = group < total
    places = group[:, None] * 128 + tl.arange(0, 128)[None, :]
    x = tl.load(input_ptr + places, mask=there[:, None], other=0.0).to(tl.float32)
    most = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-10)
    scales = s_ptr + group // groups * token_stride + group % groups * group_stride
    tl.store(scales, most / 448.0, mask=there)
    y = x * (448.0 / most)[:, None]
    y = tl.clamp(y, -448.0, 448.0)
    tl.store(q_ptr + places, y.to(tl.float8e4nv), mask=there[:, None])


def per_token_group_quant_fp8(input, output_q, output_s, tokens, hidden, column_major):
    groups = hidden // 128
    token_stride = 1 if column_major == 1 else groups
    group_stride = triton.cdiv(tokens, 4) * 4 if column_major == 1 else 1
    total = tokens * groups
    GROUPS = 4 if total <= 1024 else 16
    quant_kernel[(triton.cdiv(total, GROUPS),)](
        input,
        output_q,
        output_s,
        groups,
        total,
        token_stride,
        group_stride,
        GROUPS=GROUPS,
        num_warps=4,
    )
