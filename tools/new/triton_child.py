"""Compiles a Triton kernel to PTX, without a GPU; a process of its own, for Triton is large.

`python -m astra_chat.tools.new.triton_child REQUEST ANSWER`, both JSON files
(new/triton_compile.py).
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

ARCH, WARP = 90, 32
DIVISIBLE = [["tt.divisibility", 16]]


def main() -> None:
    request, answer = map(Path, sys.argv[1:])
    asked = json.loads(request.read_text())
    kernel = _kernel(Path(asked["file"]), asked["kernel"])
    made = [_compiled(kernel, variant) for variant in asked["variants"]]
    answer.write_text(json.dumps(made))


def _kernel(file: Path, name: str) -> Any:
    named = importlib.util.spec_from_file_location(file.stem, file)
    assert named is not None and named.loader is not None
    module = importlib.util.module_from_spec(named)
    named.loader.exec_module(module)
    return getattr(module, name)


def _compiled(kernel: Any, variant: dict[str, Any]) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = list(variant["signature"])
    attributes = {(names.index(name),): DIVISIBLE for name in variant["divisible"]}
    source = ASTSource(kernel, variant["signature"], variant["constants"], attributes)
    try:
        made = triton.compile(
            source, target=GPUTarget("cuda", ARCH, WARP), options=variant["options"]
        )
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"}
    scratch = made.metadata.global_scratch_size
    return {"ptx": made.asm["ptx"], "shared_bytes": made.metadata.shared, "scratch_bytes": scratch}


if __name__ == "__main__":
    main()
