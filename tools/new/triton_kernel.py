"""The signature of a Triton kernel as start of a contract.

Its Python is read with the standard library's parser. Only where the user says how it is launched
is Triton asked for its machine code (new/triton_baseline.py).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.new.draft import (
    MARK,
    Draft,
    DraftScalar,
    Tensor,
    is_no_size,
    variables_of,
)
from astra_chat.tools.new.triton_baseline import TritonParameter, baseline, constants_of
from astra_chat.tools.new.triton_launch import TritonLaunch
from astra_chat.tools.triton.compile import is_jit
from astra_chat.tools.types import DTypeName
from astra_vgpu.ground.errors import BadInput

HOW_TO_COMPILE = (
    "with --grid, and --constant for its constants, Triton's machine code becomes baseline.cu"
)
_POINTER = re.compile(r"(.*?)_?(ptr|pointer)s?", re.IGNORECASE)
_READS, _WRITES = ("load",), ("store",)
_FLOAT = re.compile(r"eps|.*_?scale|alpha|beta|.*_value|sm_scale|p")


def kernels(source: str, name: str) -> list[ast.FunctionDef]:
    """Functions under @triton.jit. Raises BadInput where it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadInput(f"{name}, line {line}: it is not valid Python: {error}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [one for one in functions if any(is_jit(d) for d in one.decorator_list)]


def parameters_of(kernel: ast.FunctionDef) -> tuple[list[TritonParameter], list[Tensor]]:
    """Its parameters but the constants, in the contract's words, and its tensors. Pointers are
    tensors, the rest are strides, sizes and numbers. Raises BadInput."""
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    plain = [a.arg for a in arguments if a.arg not in constants_of(kernel)]
    uses = {name: _uses(kernel, name) for name in plain}
    tensors: list[Tensor] = []
    found: list[TritonParameter] = []
    strides: dict[str, list[int]] = {}
    for name in plain:
        lower = name.lower()
        if _POINTER.fullmatch(name) or uses[name].reads or uses[name].writes:
            tensors.append(_tensor(name, uses[name]))
            found.append(TritonParameter(name, "tensor", tensors[-1].name))
        elif (owner := _owner(name, [t.name for t in tensors])) is not None:
            strides.setdefault(owner, []).append(len(found))
            found.append(TritonParameter(name, "one", "1"))
        else:
            found.append(
                TritonParameter(name, "float" if _FLOAT.fullmatch(lower) else "int", lower)
            )
    if not tensors:
        raise BadInput(
            f"line {kernel.lineno}: {kernel.name} takes no pointer, but a task needs at least one"
        )
    tensors = [_strided(t, len(strides.get(t.name, ()))) for t in tensors]
    for tensor in tensors:
        for place, stride in zip(strides.get(tensor.name, ()), tensor.stride_names, strict=False):
            found[place] = TritonParameter(found[place].name, "int", stride)
    return found, tensors


def draft_of(
    kernel: ast.FunctionDef,
    entry: str,
    source: str = "",
    launch: TritonLaunch | None = None,
    dtypes: Mapping[str, DTypeName] | None = None,
) -> Draft:
    """The contract's draft; with `launch`, its machine code as baseline, of the file's `source`.
    `dtypes`: of tensors that have not the case's. Raises BadInput, and MissingDependency without
    Triton."""
    parameters, tensors = parameters_of(kernel)
    if unknown := sorted(set(dtypes or ()) - {t.name for t in tensors}):
        raise BadInput(f"--dtype {unknown[0]}: the tensors are {_names(tensors)}")
    tensors = [replace(t, dtype=(dtypes or {}).get(t.name, t.dtype)) for t in tensors]
    strides = {name for t in tensors for name in t.stride_names}
    others = [p for p in parameters if p.kind in ("int", "float") and p.argument not in strides]
    sizes = [p for p in others if p.kind == "int" and not is_no_size(p.argument)]
    named, variables, known = variables_of(tensors)
    draft = Draft(
        entry=entry,
        tensors=named,
        dims=tuple(p.argument for p in sizes),
        scalars=tuple(
            DraftScalar(p.argument, "float" if p.kind == "float" else "int64_t")
            for p in others
            if p not in sizes
        ),
        variables=variables,
        variables_known=known,
        origin=f"the Triton kernel {kernel.name}",
    )
    if launch is not None:
        return replace(draft, baseline=baseline(source, kernel, draft, parameters, launch))
    constants = constants_of(kernel)
    chosen = f"; its constants: {', '.join(constants)}" if constants else ""
    lines = [
        f"// {MARK}: what {kernel.name} does, in CUDA{chosen}; or `astra-chat new` again:",
        f"// {HOW_TO_COMPILE}.",
        "#include <cstdint>",
        "#include <cuda_runtime.h>",
        "",
        *head(f'extern "C" cudaError_t {entry}', draft.parameters, " {"),
        "  return cudaErrorNotSupported;",
        "}",
        "",
    ]
    origin = f"{draft.origin}; {HOW_TO_COMPILE}"
    return replace(draft, baseline="\n".join(lines), origin=origin)


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(tensor.name for tensor in tensors)


@dataclass
class _Uses:
    """What a kernel does with what a pointer points to."""

    reads: bool = False
    writes: bool = False


def _uses(kernel: ast.FunctionDef, name: str) -> _Uses:
    """Loads and stores through the pointer, or through what is computed from it."""
    known = {name}
    uses = _Uses()
    for _ in range(2):  # a loop may use what stands below
        for node in ast.walk(kernel):
            if isinstance(node, ast.Assign) and _addresses(node.value, known):
                known |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.Call) and node.args and _addresses(node.args[0], known):
                called = ast.unparse(node.func).split(".")[-1]
                uses.reads |= called in _READS or called.startswith("atomic")
                uses.writes |= called in _WRITES or called.startswith("atomic")
    return uses


def _addresses(value: ast.expr, known: set[str]) -> bool:
    """Whether an expression is one of these pointers, or a distance from it."""
    if isinstance(value, ast.Name):
        return value.id in known
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        return _addresses(value.left, known) or _addresses(value.right, known)
    if isinstance(value, ast.Call):
        made = ast.unparse(value.func).split(".")[-1] in ("make_block_ptr", "advance", "to")
        inner = [*value.args, *(k.value for k in value.keywords if k.arg == "base")]
        return made and any(_addresses(one, known) for one in inner)
    return False


def _tensor(name: str, uses: _Uses) -> Tensor:
    found = _POINTER.fullmatch(name)
    short = (found[1] if found and found[1] else name).lower()
    access = "readwrite" if uses.reads and uses.writes else "write" if uses.writes else "read"
    doubts = ["is this its shape?", "is its dtype that of the case?"]
    if not (uses.reads or uses.writes):
        doubts.append("is it only read, only written, or both?")
    return Tensor(short, access, doubts=tuple(doubts))


def _owner(name: str, tensors: list[str]) -> str | None:
    """The tensor whose stride a parameter is: stride_xm, x_stride, x_row_stride."""
    lower = name.lower()
    if "stride" not in lower:
        return None
    for tensor in sorted(tensors, key=len, reverse=True):
        if re.match(rf"stride_{tensor}|{tensor}(_\w+)?_stride", lower):
            return tensor
    return None


def _strided(tensor: Tensor, count: int) -> Tensor:
    """With so many free strides; the last axis is dense."""
    if not count:
        return tensor
    strides = ("free",) * max(1, count - 1) + ("1",)
    doubts = (*tensor.doubts, "are these its strides?")
    return Tensor(**{**tensor.__dict__, "strides": strides, "doubts": doubts})
