"""Triton kernels that SGLang launches today, as CUDA source: Triton's own machine code of each, in
an asm statement. Made once, where Triton is installed, and built wherever it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from astra_chat.tools.triton.compile import Compiled, Constant, Variant, compiled
from astra_chat.tools.triton.ptx import asm_statement, entry_of
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput

WARP = 32
DECLARED = {"i32": "int", "fp32": "float"}


@dataclass(frozen=True)
class TritonKernel:
    """How SGLang launches it (version 0.5.23) on this architecture."""

    file: str
    """Below kernels/ops."""
    name: str
    signature: Mapping[str, str]
    """Triton's type of each parameter, in their order, but for the last that are constants."""
    constants: Mapping[str, Constant]
    variants: Mapping[str, Mapping[str, Constant]]
    """Constants that depend on the call, by what follows the kernel's name in the source."""
    warps: int
    divisible: tuple[str, ...]
    """Parameters that are multiples of 16 in the calls for which it is taken."""
    served: Callable[[Case], bool]
    """Whether SGLang takes it for a call."""
    types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Triton's types of parameters that depend on the call, by variant."""
    more_divisible: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further parameters that are multiples of 16, by variant."""


ROUTER_CONSTANTS = (
    "N K K_ROUTED BLOCK_M BLOCK_N BLOCK_K N_GROUP TOPK_GROUP EXPERTS_PER_GROUP BLOCK_G"
    " SCORING_FUNC SQRTSOFTPLUS_LOG1P HAS_SOFTCAP RENORMALIZE APPLY_SCALE HAS_BIAS HAS_TOKEN_BIAS"
    " BIAS_ALT_TOKEN_ID HAS_PADDING HAS_PACKED RENORMALIZE_EPSILON USE_PDL"
).split()


@dataclass(frozen=True)
class TritonRouter:
    """One compilation of SGLang's router, as its host code (moe_fused_gate) asks for it."""

    dtype: str
    """Triton's name of the logits' type."""
    experts: int
    topk: int
    renormalize: bool = True
    bias: bool = False

    @property
    def name(self) -> str:
        """What follows the kernel's name: the launcher writes it, too."""
        ends = "" if self.renormalize else "_plain", "_bias" if self.bias else ""
        return f"_{self.dtype}_{self.experts}_{self.topk}{''.join(ends)}"

    @property
    def constants(self) -> Mapping[str, Constant]:
        block = 1 << (self.experts - 1).bit_length()
        return {
            "N": self.experts,
            "K": self.topk,
            "K_ROUTED": self.topk,
            "BLOCK_M": max(1, min(4, 256 // block)),
            "BLOCK_N": block,
            "BLOCK_K": 1 << (self.topk - 1).bit_length(),
            "EXPERTS_PER_GROUP": self.experts,
            "RENORMALIZE": self.renormalize,
            "HAS_BIAS": self.bias,
            **({"stride_bias": 1} if self.bias else {}),
        }

    @property
    def types(self) -> Mapping[str, str]:
        """Without a bias the host code passes the logits for it."""
        bias = "fp32" if self.bias else self.dtype
        return {"scores_ptr": f"*{self.dtype}", "bias_ptr": f"*{bias}"}

    @property
    def divisible(self) -> tuple[str, ...]:
        rows = ("stride_sm",) if self.experts % 16 == 0 else ()
        return rows if self.bias else (*rows, "stride_bias")


ROUTERS = {
    router.name: router
    for router in (
        TritonRouter("bf16", 128, 8),
        TritonRouter("fp32", 256, 8),
        TritonRouter("fp32", 160, 6, renormalize=False),
        TritonRouter("bf16", 8, 2),
        TritonRouter("bf16", 512, 10),
        TritonRouter("fp32", 256, 8, bias=True),
    )
}
"""The routers of the timed cases, by what follows the kernel's name."""
ROUTER_DTYPES = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}


def _router_of(case: Case) -> str:
    """Returns the name of the router that a call asks for; soft capping is no timed case's."""
    if case.scalars.get("moe_softcapping"):
        return ""
    return TritonRouter(
        ROUTER_DTYPES[case.dtype],
        case.dims["experts"],
        case.dims["topk"],
        bool(case.scalars.get("renormalize", True)),
        "correction_bias" not in case.absent,
    ).name


IN_TRITON = {
    "moe_sum_reduce": TritonKernel(
        "moe/fused_moe_triton_kernels.py", "_moe_sum_reduce_kernel",
        {
            "input_ptr": "*bf16", "input_stride_0": "i32", "input_stride_1": "i32",
            "input_stride_2": "constexpr", "output_ptr": "*bf16", "output_stride_0": "i32",
            "output_stride_1": "constexpr", "token_num": "i32", "topk_num": "i32",
            "hidden_dim": "i32",
        },
        {
            "input_stride_2": 1, "output_stride_1": 1, "routed_scaling_factor": 2.5, "BLOCK_M": 1,
            "BLOCK_DIM": 2048, "NUM_STAGE": 1, "USE_GDC": True,
        },
        {"": {}}, warps=16, served=lambda case: case.dims["tokens"] <= 32,
        divisible=(
            "input_ptr", "input_stride_0", "input_stride_1", "output_ptr", "output_stride_0",
            "hidden_dim",
        ),
    ),
    "moe_align_block_size": TritonKernel(
        "moe/moe_align_small_numel.py", "_moe_align_small_numel_kernel",
        {
            "topk_ids_ptr": "*i32", "sorted_token_ids_ptr": "*i32", "expert_ids_ptr": "*i32",
            "num_tokens_post_pad_ptr": "*i32", "num_experts": "i32", "block_size": "i32",
            "numel": "i32",
        },
        {"USE_GDC": True, "WRITE_INACTIVE_PREFIX_COUNT": False},
        {f"_{n}": {"NP": n, "NB": n} for n in (8, 16, 32, 64)}, warps=4,
        divisible=(
            "topk_ids_ptr", "sorted_token_ids_ptr", "expert_ids_ptr", "num_tokens_post_pad_ptr",
            "block_size",
        ),
        served=lambda case: case.dims["tokens"] * case.dims["topk"] <= 64 <= case.dims["experts"],
    ),
    "topk_softmax": TritonKernel(
        "moe/moe_fused_gate.py", "_router_triton_kernel",
        {
            "scores_ptr": "*bf16", "bias_ptr": "*bf16", "bias_alt_ptr": "constexpr",
            "input_ids_ptr": "constexpr", "num_token_non_padded_ptr": "constexpr",
            "out_weights_ptr": "*fp32", "out_indices_ptr": "*i32", "out_packed_ptr": "*i32",
            "M": "i32", "routed_scaling_factor": "fp32", "moe_softcapping": "fp32",
            **dict.fromkeys(ROUTER_CONSTANTS, "constexpr"),
            "stride_bias": "i32", "stride_bias_alt": "i32", "stride_input_ids": "i32",
            "stride_sm": "i32", "stride_sn": "constexpr", "stride_wm": "i32",
            "stride_wk": "constexpr", "stride_im": "i32", "stride_ik": "constexpr",
            "stride_pm": "i32", "stride_pk": "i32",
        },
        {
            "bias_alt_ptr": None, "input_ids_ptr": None, "num_token_non_padded_ptr": None,
            "N_GROUP": 1, "TOPK_GROUP": 1, "BLOCK_G": 1, "SCORING_FUNC": 2,
            "SQRTSOFTPLUS_LOG1P": False, "HAS_SOFTCAP": False, "APPLY_SCALE": False,
            "HAS_TOKEN_BIAS": False, "BIAS_ALT_TOKEN_ID": None, "HAS_PADDING": False,
            "HAS_PACKED": False, "RENORMALIZE_EPSILON": 0.0, "USE_PDL": True, "stride_sn": 1,
            "stride_wk": 1, "stride_ik": 1,
        },
        {name: router.constants for name, router in ROUTERS.items()}, warps=1,
        divisible=(
            "scores_ptr", "bias_ptr", "out_weights_ptr", "out_indices_ptr", "out_packed_ptr",
            "stride_bias_alt", "stride_input_ids", "stride_pm", "stride_pk",
        ),
        served=lambda case: _router_of(case) in ROUTERS,
        types={name: router.types for name, router in ROUTERS.items()},
        more_divisible={name: router.divisible for name, router in ROUTERS.items()},
    ),
}  # fmt: skip


def translate(ops: Path, out: Path) -> list[Path]:
    """Write the source of each kernel of the folder kernels/ops. Raises BadInput, and
    MissingDependency without Triton."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for task, kernel in IN_TRITON.items():
        file = ops / kernel.file
        if not file.is_file():
            raise BadInput(f"{file} is missing")
        path = out / f"{task}.cu"
        path.write_text(_source(kernel, file.read_text()))
        paths.append(path)
    return paths


def _source(kernel: TritonKernel, text: str) -> str:
    variants = {
        suffix: _variant(kernel, suffix, {**kernel.constants, **more})
        for suffix, more in kernel.variants.items()
    }
    made = compiled(text, kernel.name, list(variants.values()))
    lines = []
    for (suffix, variant), one in zip(variants.items(), made, strict=True):
        lines += _function(f"triton{kernel.name}{suffix}", variant, one)
    return "\n".join(lines) + "\n"


def _variant(kernel: TritonKernel, suffix: str, constants: Mapping[str, Constant]) -> Variant:
    types = kernel.types.get(suffix, {})
    signature = {**kernel.signature, **types, **dict.fromkeys(constants, "constexpr")}
    divisible = (*kernel.divisible, *kernel.more_divisible.get(suffix, ()))
    return Variant(signature, constants, kernel.warps, divisible=divisible)


def _function(name: str, variant: Variant, made: Compiled) -> list[str]:
    entry = entry_of(made.ptx, len(variant.given))
    declared = (
        f"{DECLARED.get(variant.signature[given], 'void*')} {given}" for given in variant.given
    )
    shared = f"  __shared__ __align__(16) unsigned char global_smem[{made.shared_bytes}];"
    threads = WARP * variant.warps
    return [
        f"__global__ void __launch_bounds__({threads}) {name}({', '.join(declared)}) {{",
        *[shared] * entry.shared,
        *asm_statement(entry, variant.given, "  "),
        "}",
    ]
