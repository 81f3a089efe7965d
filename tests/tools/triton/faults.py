"""Kernels in Triton by task, as edits of samples.SOURCES: honest ones, and planted faults."""

from __future__ import annotations

from tests.tools.triton.samples import Edits

HONEST: dict[str, dict[str, Edits]] = {
    "rmsnorm": {
        "as it is": (),
        "one over a root": (
            (
                "tl.rsqrt(tl.sum(x * x, axis=0) / h + eps)",
                "1.0 / tl.sqrt(tl.sum(x * x, axis=0) / h + eps)",
            ),
        ),
        "8 warps": (("num_warps=4 if BLOCK <= 4096 else 16", "num_warps=8"),),
        "a named grid": (
            (
                "    rmsnorm_kernel[(tokens,)]",
                "    blocks = (tokens, 1)\n    rmsnorm_kernel[blocks]",
            ),
        ),
        "times one over h": (("axis=0) / h", "axis=0) * (1.0 / h)"),),
    },
    "moe_sum_reduce": {
        "as it is": (),
        "small blocks": (("256 if tokens <= 128 else 1024", "128 if tokens <= 64 else 512"),),
        "last expert first": (("row + expert * hidden", "row + (experts - 1 - expert) * hidden"),),
        "Triton's range": (("in range(experts)", "in tl.range(experts)"),),
        "8 warps, 2 stages": (("num_warps=4", "num_warps=8, num_stages=2"),),
    },
    "silu_and_mul": {
        "as it is": (),
        "sigmoid": (("gate / (1.0 + tl.exp(-gate))", "gate * tl.sigmoid(gate)"),),
        "powers of two": (("tl.exp(-gate)", "tl.exp2(gate * -1.4426950408889634)"),),
        "wide blocks": (("BLOCK = 512", "BLOCK = 2048"),),
        "blocks by length": (("BLOCK = 512", "BLOCK = 1024 if d % 1024 == 0 else 256"),),
    },
    "per_token_group_quant_fp8": {
        "as it is": (),
        "8 groups a program": (("4 if total <= 1024 else 16", "8"),),
        "divided": (("x * (448.0 / most)[:, None]", "x / (most / 448.0)[:, None]"),),
    },
    "gemv_bf16": {
        "as it is": (),
        "128 columns": (("triton.cdiv(n, 64)", "triton.cdiv(n, 128)"), ("N=64", "N=128")),
    },
    "linear_cross_entropy": {
        "as it is": (),
        "powers of two": (
            (
                "tl.exp(logits - largest[:, None])",
                "tl.exp2((logits - largest[:, None]) * 1.4426950408889634)",
            ),
        ),
    },
}
FAULTS: dict[str, dict[str, Edits]] = {
    "moe_sum_reduce": {
        "no mask": ((", mask=mask, other=0.0", ""), (", mask=mask)", ")")),
        "wrong stride": (("token * hidden + columns, y", "token * (hidden + 1) + columns, y"),),
        "one expert less": (("range(experts)", "range(experts - 1)"),),
        "sum in bfloat16": (
            ("to(tl.float32)\n    y", "to(tl.bfloat16).to(tl.float32)\n    y"),
        ),
        "rounded before the scale": (
            ("y = total *", "y = total.to(input_ptr.dtype.element_ty).to(tl.float32) *"),
        ),
        "32-bit offset": (("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),),
        "short grid": (("triton.cdiv(hidden, BLOCK)", "max(hidden // BLOCK, 1)"),),
        "grid below zero": (("triton.cdiv(hidden, BLOCK)", "triton.cdiv(hidden, BLOCK) - 2"),),
        "race between blocks": (
            ("triton.cdiv(hidden, BLOCK))", "triton.cdiv(hidden, BLOCK) + 1)"),
            ("tl.program_id(1) * BLOCK", "tl.maximum(tl.program_id(1) - 1, 0) * BLOCK"),
            ("y = total * scale", "y = total * scale + tl.program_id(1) * 0.001"),
        ),
        "added to what was there": (("tl.store(", "tl.atomic_add("),),
        "wrong for one number": (
            ("y = total * scale",
             "y = total * scale\n    if hidden == 7168:\n        y = total * 2.5"),
        ),
        "right for multiples of 16 only": (
            ("experts, hidden, scale, BLOCK=", "experts, hidden - hidden % 16, scale, BLOCK="),
        ),
    },
    "rmsnorm": {
        "eps hard-coded": (("/ h + eps", "/ h + 1e-6"),),
        "no mask of the store": (("element_ty), mask=mask)", "element_ty))"),),
        "stride of the other tensor": (("row * out_stride", "row * input_stride"),),
        "mean over the block": (("axis=0) / h", "axis=0) / BLOCK"),),
        "rounded before the weight": (
            ("x * scale * w", "(x * scale).to(out_ptr.dtype.element_ty).to(tl.float32) * w"),
        ),
        "long rows not launched": (
            ("    BLOCK = max", "    if h > 16384:\n        return\n    BLOCK = max"),
        ),
        "one size with another eps": (
            ("    rmsnorm_kernel[", "    eps = 1e-6 if h == 7168 else eps\n    rmsnorm_kernel["),
        ),
    },
    "silu_and_mul": {
        "gate and up swapped": (("exp(-gate)) * up", "exp(-up)) * up"),),
        "rounded before the product": (
            ("gate / (1.0 + tl.exp(-gate))",
             "(gate / (1.0 + tl.exp(-gate))).to(out_ptr.dtype.element_ty).to(tl.float32)"),
        ),
        "32-bit row": (("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),),
        "no mask of the store": (("element_ty), mask=mask)", "element_ty))"),),
        "more tokens than a grid's y": (
            ("token = tl.program_id(0)", "token = tl.program_id(1)"),
            ("columns = tl.program_id(1)", "columns = tl.program_id(0)"),
            ("(tokens, triton.cdiv(d, BLOCK))", "(triton.cdiv(d, BLOCK), tokens)"),
        ),
    },
    "per_token_group_quant_fp8": {
        "no least maximum": (("tl.maximum(tl.max(tl.abs(x), axis=1), 1e-10)",
                              "tl.max(tl.abs(x), axis=1)"),),
        "largest with its sign": (("tl.abs(x)", "x"),),
        "layouts swapped": (("column_major == 1", "column_major == 0"),),
        "columns without a gap": (("triton.cdiv(tokens, 4) * 4", "tokens"),),
        "another largest code": (("most / 448.0", "most / 447.0"),),
    },
    "gemv_bf16": {
        "last row of x missing": (("[:, None] & (rows < m)[None, :]\n        x =",
                                   "[:, None] & (rows < m - 1)[None, :]\n        x ="),),
        "end of the sum missing": (("range(0, k, K)", "range(0, k - K + 1, K)"),),
        "sum in bfloat16": (("tl.dot(w, x, total)",
                             "tl.dot(w, x, total).to(tl.bfloat16).to(tl.float32)"),),
    },
    "linear_cross_entropy": {
        "zeros past the vocabulary": (
            ("    logits = tl.where((columns < vocab)[None, :], logits, -3.0e38)\n", ""),
        ),
        "an ignored target counts": (("tl.where(used, top", "tl.where(token >= 0, top"),),
        "no maximum": (("largest = tl.max(logits, axis=1)",
                        "largest = tl.max(logits, axis=1) * 0.0"),),
        "32-bit rows of the weight": (("columns.to(tl.int64)[None, :] * d",
                                       "columns[None, :] * d"),),
    },
}  # fmt: skip
