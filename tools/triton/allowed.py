"""Names that a kernel may use: of triton.language, of its tensors, and of Python's builtins.

Left out is what prints, asserts, holds text of another language (inline_asm_elementwise), asks
where or when a kernel runs, or is no part of Triton's documented language.
"""

from __future__ import annotations

LANGUAGE = frozenset(
    """
    program_id num_programs arange full zeros zeros_like cat join interleave split broadcast
    broadcast_to expand_dims permute trans reshape ravel view flip squeeze unsqueeze cast tensor
    load store make_block_ptr advance where clamp minimum maximum abs ceil floor cos sin exp exp2
    log log2 rsqrt sqrt sqrt_rn sigmoid softmax erf fma fdiv div_rn umulhi sum max min argmax argmin
    xor_sum reduce reduce_or cumsum cumprod associative_scan sort topk histogram gather dot
    atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg atomic_xor
    range static_range static_assert constexpr cdiv multiple_of max_contiguous max_constancy assume
    debug_barrier swizzle2d dtype pointer_type block_type
    int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8e4nv float8e5 float16 bfloat16
    float32 float64 add sub mul
    """.split()
)
"""Names that are used as tl.NAME."""
MATHS = frozenset(
    "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi".split()
)
"""Names that are used as tl.math.NAME."""
LIBDEVICE = frozenset(
    """
    abs acos asin atan atan2 cbrt ceil copysign cos cosh div_rn div_rz erf erfc exp exp10 exp2
    expm1 fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_powf
    fast_sinf fast_tanf fast_tanhf ffs float2half_rn floor fma fmod hypot isfinited isinf isnan
    ldexp llrint log log10 log1p log2 logb max min mul24 nearbyint popc pow rcp64h rcp_rn rint
    round rsqrt rsqrt_rn sin sinh sqrt sqrt_rn tan tanh trunc
    """.split()
)
"""Names that are used as libdevice.NAME."""
MODULES = {
    "tl": LANGUAGE,
    "triton.language": LANGUAGE,
    "tl.math": MATHS,
    "libdevice": LIBDEVICE,
    "tl.extra.libdevice": LIBDEVICE,
    "tl.extra.cuda.libdevice": LIBDEVICE,
    "triton": frozenset({"cdiv", "next_power_of_2"}),
}
IMPORTS = (
    "import triton",
    "import triton.language as tl",
    "from triton import language as tl",
    "from triton.language.extra import libdevice",
    "from triton.language.extra.cuda import libdevice",
)
METHODS = LANGUAGE | {"to", "logical_and", "logical_or", "item"}
"""Methods of tensors."""
ATTRIBUTES = frozenset(
    "dtype element_ty shape T type value numel scalar primitive_bitwidth".split()
)
"""Attributes of tensors, types and constants."""
BUILTINS = frozenset("range min max abs len int float bool".split())
