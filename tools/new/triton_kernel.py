"""The signature of a Triton kernel as start of a contract.

Its machine code is made by Triton on a machine with a GPU; here only its Python is read, with the
standard library's parser, and never run.
"""

from __future__ import annotations

import ast
import re

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new.accesses import Uses
from astra_chat.tools.new.draft import MARK, USUAL, Draft, Scalar, Tensor, head, is_no_size

NEEDS_GPU = (
    "Triton's machine code can be captured only on a machine with a GPU, so the launcher of"
    " baseline.cu is left to you"
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
        raise BadInput(f"{name}, line {line}: it is no Python: {error}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [one for one in functions if any(_is_jit(d) for d in one.decorator_list)]


def draft_of(kernel: ast.FunctionDef, entry: str) -> Draft:
    """Pointers are tensors, constexpr parameters are left out, the rest are sizes and numbers."""
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    constants = [
        a.arg for a in arguments if a.annotation and "constexpr" in ast.unparse(a.annotation)
    ]
    plain = [a.arg for a in arguments if a.arg not in constants]
    uses = {name: _uses(kernel, name) for name in plain}
    tensors, dims, scalars = [], [], []
    strides: dict[str, int] = {}
    for name in plain:
        if _POINTER.fullmatch(name) or uses[name].reads or uses[name].writes:
            tensors.append(_tensor(name, uses[name]))
        elif (owner := _owner(name, [t.name for t in tensors])) is not None:
            strides[owner] = strides.get(owner, 0) + 1
        elif _FLOAT.fullmatch(name.lower()):
            scalars.append(Scalar(name.lower(), "float"))
        elif is_no_size(name.lower()):
            scalars.append(Scalar(name.lower(), "int64_t"))
        else:
            dims.append(name.lower())
    if not tensors:
        raise BadInput(f"line {kernel.lineno}: {kernel.name} takes no pointer: a task needs one")
    draft = Draft(
        entry=entry, tensors=tuple(_strided(t, strides.get(t.name, 0)) for t in tensors),
        dims=tuple(dims), scalars=tuple(scalars), variables={"T": USUAL}, variables_known=False,
        origin=f"the Triton kernel {kernel.name}; {NEEDS_GPU}",
    )  # fmt: skip
    chosen = f"; its constants: {', '.join(constants)}" if constants else ""
    lines = [
        f"// {MARK}: what {kernel.name} does, in CUDA{chosen}.",
        "#include <cstdint>", "#include <cuda_runtime.h>", "",
        *head(f'extern "C" cudaError_t {entry}', draft.parameters, " {"),
        "  return cudaErrorNotSupported;", "}", "",
    ]  # fmt: skip
    return Draft(**{**draft.__dict__, "baseline": "\n".join(lines)})


def _is_jit(decorator: ast.expr) -> bool:
    words = ast.unparse(decorator).split("(")[0]
    return words.split(".")[-1] == "jit"


def _uses(kernel: ast.FunctionDef, name: str) -> Uses:
    """Loads and stores through the pointer, or through what is computed from it."""
    known = {name}
    uses = Uses()
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


def _tensor(name: str, uses: Uses) -> Tensor:
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
