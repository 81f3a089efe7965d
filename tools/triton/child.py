"""Compiles Triton kernels to PTX, without a GPU; a process of its own, in the sandbox.

`python -m astra_chat.tools.triton.child FOLDER`, which holds kernels.py and the request
(triton/compile.py); the answer is written there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

WARP = 32
DIVISIBLE = [["tt.divisibility", 16]]
MOST_CHARACTERS = 4000


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ.update(TRITON_CACHE_DIR=str(folder / "cache"), TRITON_HOME=str(folder))
    asked = json.loads((folder / "request").read_text())
    module = _module(folder / "kernels.py")
    _stop_at_ptx()
    made = list[dict[str, Any]]()
    for variant in asked["variants"]:
        made.append(_compiled(getattr(module, variant["kernel"]), variant, asked["arch"]))
        if "error" in made[-1]:
            break
    (folder / "answer").write_text(json.dumps(made))


def _module(file: Path) -> Any:
    named = importlib.util.spec_from_file_location(file.stem, file)
    assert named is not None and named.loader is not None
    module = importlib.util.module_from_spec(named)
    named.loader.exec_module(module)
    return module


def _stop_at_ptx() -> None:
    """Spares ptxas: nvcc's own makes the machine code."""
    from triton.backends.nvidia.compiler import CUDABackend

    if hasattr(CUDABackend, "make_cubin"):
        CUDABackend.make_cubin = lambda self, *_: b""


def _compiled(kernel: Any, variant: dict[str, Any], arch: int) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(variant["signature"])
    attributes = {(names.index(name),): DIVISIBLE for name in variant["divisible"]}
    source = ASTSource(kernel, variant["signature"], variant["constants"], attributes)
    try:
        made = triton.compile(
            source, target=GPUTarget("cuda", arch, WARP), options=variant["options"]
        )
    except Exception as error:
        return {"error": _words(error)[-MOST_CHARACTERS:]}
    scratch = made.metadata.global_scratch_size
    return {"ptx": made.asm["ptx"], "shared_bytes": made.metadata.shared, "scratch_bytes": scratch}


def _words(error: BaseException) -> str:
    """What an error says, and below it the errors that led to it."""
    words = f"{type(error).__name__}: {str(error).strip()}"
    return f"{words}\n{_words(error.__cause__)}" if error.__cause__ else words


if __name__ == "__main__":
    main()
