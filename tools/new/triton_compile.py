"""Machine code of a Triton kernel: PTX for each element type and constant, made without a GPU."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from astra_chat.tools.types import DTypeName
from astra_vgpu.ground.errors import BadInput, MissingDependency

CHILD = "astra_chat.tools.new.triton_child"
TIMEOUT_S = 600.0
TYPES: dict[DTypeName, str] = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "int8": "i8",
    "uint8": "u8",
    "int32": "i32",
    "int64": "i64",
    "bool": "i1",
}
"""Triton's names."""
Constant = int | float | bool | str | None


@dataclass(frozen=True)
class Variant:
    """What one compilation is of."""

    signature: Mapping[str, str]
    """Triton's type of each parameter, in their order; of a constant "constexpr"."""
    constants: Mapping[str, Constant]
    warps: int
    stages: int | None = None
    divisible: tuple[str, ...] = ()
    """Parameters that are multiples of 16: addresses in bytes, integers."""

    @property
    def given(self) -> list[str]:
        """Parameters of the machine code."""
        return [name for name, kind in self.signature.items() if kind != "constexpr"]


@dataclass(frozen=True)
class Compiled:
    ptx: str
    shared_bytes: int


def compiled(source: str, kernel: str, variants: Sequence[Variant]) -> list[Compiled]:
    """Each variant of a @triton.jit function of `source`, of which only such functions, imports of
    triton and plain constants are executed.

    Raises BadInput with Triton's own words, and MissingDependency without Triton.
    """
    if find_spec("triton") is None:
        raise MissingDependency(
            "Triton is not installed in this environment: pip install triton (it needs no GPU)"
        )
    with tempfile.TemporaryDirectory(prefix="astra-triton-") as folder:
        file, request, answer = (Path(folder) / n for n in ("kernels.py", "asked", "made"))
        file.write_text(jit_only(source))
        asked = {"file": str(file), "kernel": kernel, "variants": [_asked(v) for v in variants]}
        request.write_text(json.dumps(asked))
        command = [sys.executable, "-m", CHILD, str(request), str(answer)]
        environment = os.environ | {"TRITON_CACHE_DIR": folder}
        try:
            end = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise BadInput(f"Triton took more than {TIMEOUT_S:.0f} s to compile it") from None
        if end.returncode:
            last = end.stderr.strip().rpartition("\n")[2] or f"exit status {end.returncode}"
            raise BadInput(f"Triton cannot compile it: {last}")
        made = json.loads(answer.read_text())
    for one in made:
        if "error" in one:
            raise BadInput(f"Triton cannot compile it: {one['error']}")
        if one["scratch_bytes"]:
            raise BadInput("it uses scratch memory that Triton's own launcher allocates")
    return [Compiled(one["ptx"], one["shared_bytes"]) for one in made]


def _asked(variant: Variant) -> dict[str, object]:
    options = {"num_warps": variant.warps} | (
        {"num_stages": variant.stages} if variant.stages else {}
    )
    return {
        "signature": dict(variant.signature),
        "constants": dict(variant.constants),
        "divisible": list(variant.divisible),
        "options": options,
    }


def jit_only(source: str) -> str:
    """Its @triton.jit functions without their other decorators (which choose constants), what they
    import of Triton, and assignments of plain values."""
    kept: list[ast.stmt] = []
    for node in ast.parse(source).body:
        match node:
            case ast.Import() if all(a.name.split(".")[0] == "triton" for a in node.names):
                kept.append(node)
            case ast.ImportFrom() if (node.module or "").split(".")[0] in ("triton", "__future__"):
                kept.append(node)
            case ast.FunctionDef() if any(is_jit(one) for one in node.decorator_list):
                node.decorator_list = [one for one in node.decorator_list if is_jit(one)]
                kept.append(node)
            case ast.Assign() | ast.AnnAssign() if node.value and _is_plain(node.value):
                kept.append(node)
    return ast.unparse(ast.Module(kept, [])) + "\n"


def is_jit(decorator: ast.expr) -> bool:
    """Whether it makes a function a Triton kernel."""
    return ast.unparse(decorator).split("(")[0].split(".")[-1] == "jit"


def _is_plain(value: ast.expr) -> bool:
    """A literal, or tl.constexpr of one."""
    if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] == "constexpr":
        value = value.args[0] if value.args else value
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True
