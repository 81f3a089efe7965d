"""Writes triton_rows.json.gz anew: what Triton makes of triton_rows.py's variants.

`python tests/tools/new/record_triton.py`, where Triton is installed and Astra too.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from astra_chat.tools.new import triton_baseline
from astra_chat.tools.new.triton_kernel import draft_of
from astra_chat.tools.new.triton_launch import launch_of
from astra_chat.tools.triton.compile import Compiled, Variant, compiled

HERE = Path(__file__).parent
KERNEL, RECORDED = HERE / "triton_rows.py", HERE / "triton_rows.json.gz"
LAUNCH = launch_of("n_rows", ["BLOCK=256,1024>=n_cols"], 2, None)


def key(variant: Variant) -> str:
    return json.dumps(asdict(variant), sort_keys=True)


def recorded(source: str, kernel: str, variants: Sequence[Variant]) -> list[Compiled]:
    """Triton's own answers, for machines without it."""
    known = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return [Compiled(**known[key(variant)]) for variant in variants]


def main() -> None:
    known: dict[str, object] = {}

    def recording(source: str, kernel: str, variants: Sequence[Variant]) -> list[Compiled]:
        made = compiled(source, kernel, variants)
        for variant, one in zip(variants, made, strict=True):
            code = one.ptx[: one.ptx.index("\n}\n") + 3]  # what follows is for debuggers
            code = re.sub(r'"[^"\n]*/', '"', code)
            known[key(variant)] = asdict(Compiled(code, one.shared_bytes))
        return made

    triton_baseline.compiled = recording
    source = KERNEL.read_text()
    function = ast.parse(source).body[-1]
    assert isinstance(function, ast.FunctionDef)
    draft_of(function, "rows", source, LAUNCH, {"x": "float32", "y": "float32"})
    RECORDED.write_bytes(gzip.compress(json.dumps(known).encode(), mtime=0))


if __name__ == "__main__":
    main()
