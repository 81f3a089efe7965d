"""Compiles FlashInfer's norms in CuTe DSL to PTX, without a GPU; a process of its own, for torch
and nvidia-cutlass-dsl are large.

`python -m lab.baselines.cute_child REQUEST ANSWER`, both JSON files (cute_kernels.py). FlashInfer's
host code asks torch for the GPU that a kernel is for: it is answered with an H100's and H200's.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

ARCH, SM = "sm_90a", 90
SHARED_BYTES_OF_A_BLOCK = 232448
PACKAGES = ("flashinfer", "flashinfer.cute_dsl", "flashinfer.norm", "flashinfer.norm.kernels")


def main() -> None:
    request, answer = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    os.environ |= {
        "CUTE_DSL_ARCH": ARCH,
        "CUTE_DSL_KEEP": "ptx",
        "CUTE_DSL_DUMP_DIR": str(answer.parent),
    }
    _answer_for_the_gpu()
    _without_its_init(Path(asked["flashinfer"]))
    module = importlib.import_module(f"flashinfer.norm.kernels.{asked['module']}")
    answer.write_text(json.dumps([_compiled(module, asked, one) for one in asked["variants"]]))


def _answer_for_the_gpu() -> None:
    import torch

    properties = types.SimpleNamespace(shared_memory_per_block_optin=SHARED_BYTES_OF_A_BLOCK)
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda *_: properties  # type: ignore[assignment]


def _without_its_init(folder: Path) -> None:
    """FlashInfer's packages without what they import: all of its other kernels."""
    for name in PACKAGES:
        package = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package


def _compiled(module: Any, asked: dict[str, Any], variant: dict[str, Any]) -> dict[str, Any]:
    """One kernel as FlashInfer asks for it: contiguous rows, with programmatic launch."""
    dtype, h = variant["dtype"], variant["h"]
    made = getattr(module, asked["compile"])(dtype, h, 0.0, True, SM, contiguous=True)
    kernel = getattr(module, asked["kernel"])(module.get_cutlass_dtype(dtype), h, sm_version=SM)
    return {
        "ptx": made.__ptx__,
        "shared_bytes": kernel._smem_size_in_bytes(),
        "threads": kernel.num_threads,
        "rows": kernel.rows_per_block,
        "cluster": kernel.cluster_n,
    }


if __name__ == "__main__":
    main()
