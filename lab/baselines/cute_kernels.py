"""FlashInfer's norms in CuTe DSL, which SGLang reaches first today, as CUDA source: the DSL's own
PTX of each row length, in an asm statement.

Made once, where nvidia-cutlass-dsl and torch are installed, without a GPU, and built wherever it is
timed. The DSL's own ptxas is not used: here nvcc's makes the machine code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.triton.ptx import asm_statement, entry_of
from astra_chat.tools.types import DTYPE_CODES, Case
from astra_vgpu.ground.errors import BadInput

CHILD = "lab.baselines.cute_child"
TIMEOUT_S = 900.0
_TENSOR = re.compile(r"\.param \.align 8 \.b8 (\S+)\[(?:8|16)\]")
"""A tensor as a parameter: an address, and a number of rows that the kernel does not read."""
_NAME = re.compile(r"\.visible \.entry (\w+)\(")
_SHARED = "__dynamic_shmem__0"


@dataclass(frozen=True)
class CuteKernel:
    """A norm of FlashInfer 0.7.2; file, function and class in norm/kernels."""

    module: str
    compile: str
    kernel: str
    tensors: tuple[str, ...]
    """Names of the parameters that are tensors; number of rows and epsilon follow."""


@dataclass(frozen=True)
class CuteCompiled:
    """What the DSL made of one row length, and how FlashInfer launches it."""

    ptx: str
    shared_bytes: int
    threads: int
    rows: int
    """Rows of a block."""
    cluster: int
    """Blocks of a cluster."""


IN_CUTE = {
    "rmsnorm": CuteKernel(
        "rmsnorm", "_get_compiled_rmsnorm_kernel", "RMSNormKernel", ("input", "weight", "out")
    ),
    "fused_add_rmsnorm": CuteKernel(
        "fused_add_rmsnorm",
        "_get_compiled_fused_add_rmsnorm_kernel",
        "FusedAddRMSNormKernel",
        ("input", "residual", "weight"),
    ),
}


def has_contiguous_rows(case: Case) -> bool:
    """Whether a call has no elements between its rows: FlashInfer has other kernels for those."""
    return not case.pad and not case.pads


def write_cute(flashinfer: Path, out: Path) -> list[Path]:
    """Write the source of each kernel of FlashInfer's package. Raises BadInput with the reason."""
    out.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, kernel in IN_CUTE.items():
        if not (flashinfer / "norm/kernels" / f"{kernel.module}.py").is_file():
            raise BadInput(f"{flashinfer} contains no norm/kernels/{kernel.module}.py")
        path = out / f"{name}.cu"
        path.write_text(cute_source(kernel, _rows(find_task(name)), flashinfer))
        paths.append(path)
    return paths


def _rows(task: Task) -> list[tuple[str, int]]:
    """Types and lengths of rows of the timed cases."""
    rows = {(case.dtype, case.dims["h"]) for case, _ in task.bench if has_contiguous_rows(case)}
    return sorted((str(dtype), h) for dtype, h in rows)


def cute_source(kernel: CuteKernel, rows: Sequence[tuple[str, int]], flashinfer: Path) -> str:
    """CUDA source of all row lengths, and which of them a call takes."""
    variants = [{"dtype": dtype, "h": h} for dtype, h in rows]
    made = _compiled(kernel, variants, flashinfer)
    lines = ["#include <cstdint>", "extern __shared__ __align__(1024) unsigned char global_smem[];"]
    chosen = []
    for (dtype, h), one in zip(rows, made, strict=True):
        if one.cluster != 1:
            raise BadInput(f"{kernel.kernel} of {h} elements launches clusters")
        name = f"cute_{kernel.kernel}_{dtype}_{h}"
        lines += _function(name, one.ptx, kernel, one.threads)
        numbers = f"{one.rows}, {one.threads}, {one.shared_bytes}"
        given = f"dtype == {DTYPE_CODES[dtype]} && h == {h}"
        chosen.append(f"  if ({given}) return {{{name}, {numbers}}};")
    arguments = ", ".join(["void*"] * len(kernel.tensors) + ["int64_t", "float"])
    lines += [
        f"struct CuteKernel {{ void (*kernel)({arguments}); int rows, threads, shared_bytes; }};",
        "inline CuteKernel cute_kernel(int dtype, int64_t h) {",
        *chosen,
        "  return {nullptr, 0, 0, 0};",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _compiled(
    kernel: CuteKernel, variants: Sequence[Mapping[str, object]], flashinfer: Path
) -> list[CuteCompiled]:
    """What the DSL makes of each variant, in a process of its own. Raises BadInput."""
    with tempfile.TemporaryDirectory(prefix="astra-cute-") as folder:
        request, answer = Path(folder, "asked"), Path(folder, "made")
        asked = {
            "flashinfer": str(flashinfer.resolve()),
            "module": kernel.module,
            "compile": kernel.compile,
            "kernel": kernel.kernel,
            "variants": list(variants),
        }
        request.write_text(json.dumps(asked))
        command = [sys.executable, "-m", CHILD, str(request), str(answer)]
        try:
            end = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BadInput(f"CuTe DSL took more than {TIMEOUT_S:.0f} s") from None
        if end.returncode:
            last = end.stderr.strip().rpartition("\n")[2] or f"exit status {end.returncode}"
            raise BadInput(f"CuTe DSL cannot compile {kernel.kernel}: {last}")
        return [CuteCompiled(**one) for one in json.loads(answer.read_text())]


def _function(name: str, ptx: str, kernel: CuteKernel, threads: int) -> list[str]:
    entry = entry_of(plain_ptx(ptx), len(kernel.tensors) + 2)
    declared = [*(f"void* {tensor}" for tensor in kernel.tensors), "int64_t rows", "float eps"]
    return [
        f"__global__ void __launch_bounds__({threads}) {name}({', '.join(declared)}) {{",
        *asm_statement(entry, [*kernel.tensors, "rows", "eps"], "  "),
        "}",
    ]


def plain_ptx(ptx: str) -> str:
    """PTX of the DSL with tensors as addresses and shared memory under Triton's name, which is what
    `entry_of` reads. Raises BadInput where it has no kernel."""
    found = _NAME.search(ptx)
    if found is None:
        raise BadInput("CuTe DSL produced no kernel")
    short = ptx.replace(found[1], "kernel")
    return _TENSOR.sub(r".param .u64 \1", short).replace(_SHARED, "global_smem")
