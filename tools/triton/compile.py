"""PTX of Triton kernels, for each element type and constant, made without a GPU.

Triton's compiler executes the kernels' file: it runs in a process of its own, in the sandbox, and
what it answers is not trusted.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, run_limited
from astra_chat.tools.types import DTypeName, Value, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry, room_in
from astra_vgpu.ground.errors import BadInput, MissingDependency

CHILD = "astra_chat.tools.triton.child"
ARCH, TIMEOUT_S = 90, 600.0
LEAST_A_CHILD = 8
MEMORY_BYTES, FILE_BYTES, PTX_CHARACTERS = 16 * 2**30, 2**28, 2**23
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


class _Answer(Value):
    """What the child says of one variant."""

    error: Annotated[str, Field(max_length=8192)] = ""
    ptx: Annotated[str, Field(max_length=PTX_CHARACTERS)] = ""
    shared_bytes: Annotated[int, Field(ge=0, lt=2**20)] = 0
    scratch_bytes: Annotated[int, Field(ge=0)] = 0


_ANSWERS: TypeAdapter[list[_Answer]] = TypeAdapter(list[_Answer])


class NotCompiled(ValueError):
    """Triton compiles no machine code of a kernel; the text says why, in its own words."""


def require_triton() -> str:
    """Triton's version. Raises MissingDependency where it is not installed."""
    found = _version()
    if found is None:
        raise MissingDependency(
            "Triton is not installed in this environment: pip install triton (it needs no GPU)"
        )
    return found


@cache
def _version() -> str | None:
    if find_spec("triton") is None:
        return None
    try:
        return version("triton")
    except PackageNotFoundError:
        return "unknown"


def compiled(source: str, kernel: str, variants: Sequence[Variant]) -> list[Compiled]:
    """Each variant of a @triton.jit function of `source`, of which only such functions, imports of
    triton and plain constants are executed.

    Raises BadInput with Triton's own words, and MissingDependency without Triton.
    """
    try:
        return compiled_each(jit_only(source), [(kernel, one) for one in variants])
    except NotCompiled as error:
        last = str(error).strip().splitlines()[-1]
        raise BadInput(f"Triton cannot compile it: {last}") from None
    except StepTimeout:
        raise BadInput(f"Triton took more than {TIMEOUT_S:.0f} s to compile it") from None


def compiled_each(
    text: str,
    asked: Sequence[tuple[str, Variant]],
    *,
    arch: int = ARCH,
    fusion: bool = True,
    stop: Stop | None = None,
) -> list[Compiled]:
    """Each variant of the @triton.jit function of that name in `text`, which is executed in the
    sandbox; from the cache where the same was asked before. `arch`: compute capability times 10.
    `fusion`: whether products and sums are fused where nobody asks for it.

    Raises NotCompiled, MissingDependency without Triton, StepTimeout and Cancelled.
    """
    wanted = [{"kernel": name, **_asked(variant, fusion)} for name, variant in asked]
    key = sha256_of("\0".join([require_triton(), text, str(arch), json.dumps(wanted)]))[:32]
    folder = cache_folder("triton")
    final = folder / key
    if not in_cache(final):
        made = _made(text, wanted, arch, stop or Stop())
        with room_in(folder), new_entry(final) as scratch:
            (scratch / "answer").write_bytes(_ANSWERS.dump_json(made))
    made = _ANSWERS.validate_json((final / "answer").read_bytes())
    return [Compiled(one.ptx, one.shared_bytes) for one in made]


def _made(text: str, wanted: list[dict[str, object]], arch: int, stop: Stop) -> list[_Answer]:
    """The children's answers: of as many processes as there are cores. Raises as above."""
    several = min(cores(), -(-len(wanted) // LEAST_A_CHILD))
    parts = [wanted[start::several] for start in range(several)]
    requests = [{"arch": arch, "variants": part} for part in parts]
    with stop.on_ctrl_c(), ThreadPoolExecutor(max(1, several)) as pool:
        each = list(pool.map(lambda request: _from_child(text, request, stop), requests))
    answers = [_read(content, len(part)) for content, part in zip(each, parts, strict=True)]
    return [answers[place % several][place // several] for place in range(len(wanted))]


def _from_child(text: str, request: Mapping[str, object], stop: Stop) -> bytes:
    """One child's answer. Raises NotCompiled where it gives none."""
    with tempfile.TemporaryDirectory(prefix="astra-triton-") as name:
        folder = Path(name)
        (folder / "kernels.py").write_text(text)
        (folder / "request").write_text(json.dumps(request))
        sandbox = SandboxPolicy(write=(folder,), memory_bytes=MEMORY_BYTES, file_bytes=FILE_BYTES)
        command = [sys.executable, "-m", CHILD, name]
        try:
            end = run_limited(command, timeout_s=TIMEOUT_S, cwd=folder, stop=stop, sandbox=sandbox)
        except StepMemory:
            raise NotCompiled(
                f"it takes more than {MEMORY_BYTES / 2**30:.0f} GiB to compile"
            ) from None
        answer = folder / "answer"
        if end.returncode or answer.is_symlink() or not answer.is_file():
            last = end.output.strip().rpartition("\n")[2][:300]
            raise NotCompiled(last or f"exit status {end.returncode}")
        return answer.read_bytes()


def _read(content: bytes, count: int) -> list[_Answer]:
    """Answers of one child. Raises NotCompiled for the first variant that has no machine code."""
    try:
        made = _ANSWERS.validate_json(content)
    except ValidationError as error:
        raise NotCompiled(f"its reply cannot be read: {error.errors()[0]['msg']}") from None
    for one in made:
        if one.error:
            raise NotCompiled(one.error)
        if one.scratch_bytes:
            raise NotCompiled("it uses scratch memory that Triton's own launcher allocates")
    if len(made) != count:
        raise NotCompiled(f"it returned only {len(made)} of {count} variants")
    return made


def _asked(variant: Variant, fusion: bool) -> dict[str, object]:
    asked = asdict(variant)
    options = {"num_warps": asked.pop("warps"), "enable_fp_fusion": fusion}
    if stages := asked.pop("stages"):
        options["num_stages"] = stages
    return {**asked, "options": options}


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
