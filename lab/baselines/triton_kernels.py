"""Triton kernels that SGLang launches today, as CUDA source: Triton's own machine code of each, in
an asm statement. Made once, where Triton is installed, and built wherever it is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.new.triton_compile import Compiled, Constant, Variant, compiled
from astra_chat.tools.new.triton_ptx import asm_statement, entry_of
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
    served: Callable[[Mapping[str, int]], bool]
    """Whether SGLang takes it, by the dims of a call."""


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
        {"": {}}, warps=16, served=lambda dims: dims["tokens"] <= 32,
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
        served=lambda dims: dims["tokens"] * dims["topk"] <= 64 <= dims["experts"],
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
        suffix: _variant(kernel, {**kernel.constants, **more})
        for suffix, more in kernel.variants.items()
    }
    made = compiled(text, kernel.name, list(variants.values()))
    lines = []
    for (suffix, variant), one in zip(variants.items(), made, strict=True):
        lines += _function(f"triton{kernel.name}{suffix}", variant, one)
    return "\n".join(lines) + "\n"


def _variant(kernel: TritonKernel, constants: Mapping[str, Constant]) -> Variant:
    signature = {**kernel.signature, **dict.fromkeys(constants, "constexpr")}
    return Variant(signature, constants, kernel.warps, divisible=kernel.divisible)


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
