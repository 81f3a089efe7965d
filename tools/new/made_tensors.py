"""Tensors that a function makes itself: its results, and the workspaces between its launches."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.new.draft import Draft, Tensor
from astra_chat.tools.new.extents import extent_of
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName

WORKSPACE = Tensor("workspace", "workspace", "uint8", ("67108864",))
"""Room for whatever a function allocates, while it is tried."""
RESULT = Tensor("result", "write", "uint8", ("1",))
"""Stands for results that nobody knows yet, while the function is tried."""
PIECE = 256
"""Bytes in whose multiples workspaces are given out (build/extension_sources/memory.h)."""
TORCH: dict[int, DTypeName] = {
    0: "uint8", 1: "int8", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 11: "bool",
    15: "bfloat16", 23: "float8_e5m2", 24: "float8_e4m3fn", 28: "int32", 29: "int64",
    44: "float8_e8m0fnu",
}  # fmt: skip
"""Dtypes by torch's numbers; unsigned ones as the contract has them."""
_ALLOCATES = re.compile(r"allocates (-?\d+) (\[[-\d, ]*\])")
_RETURNS = re.compile(r"returns (-?\d+)")


@dataclass(frozen=True)
class MadeTensors:
    """What a launcher said in one call of a case (plan/recorder/report.c)."""

    case: Case
    said: str

    @property
    def allocated(self) -> list[tuple[int, tuple[int, ...]]]:
        """torch's number of the dtype, and the sizes."""
        found = _ALLOCATES.findall(self.said)
        return [(int(kind), tuple(json.loads(sizes))) for kind, sizes in found]

    @property
    def returned(self) -> list[int]:
        """Which allocation each returned tensor is; -1 for an argument."""
        return [int(which) for which in _RETURNS.findall(self.said)]


@dataclass(frozen=True)
class Results:
    """Shapes and dtypes of what is returned, and the bytes of the rest."""

    returned: tuple[Tensor | None, ...] = ()
    """None: an argument of the function."""
    workspace: str = ""
    """An expression; "" where nothing else is allocated."""
    known: bool = True
    """Whether the workspace's size follows from the dims."""


def made_in(calls: Sequence[MadeTensors]) -> Results:
    """What the calls made, as the contract says it."""
    most = max(calls, key=lambda call: len(call.allocated))
    alike = [call for call in calls if len(call.allocated) == len(most.allocated)]
    returned = tuple(_result(alike, which) for which in most.returned)
    rest = [
        at
        for at in range(len(most.allocated))
        if at not in most.returned and any(_room(*call.allocated[at]) for call in alike)
    ]
    if not rest:
        return Results(returned)
    sizes = [_bytes(alike, at) for at in rest]
    if all(sizes):
        return Results(returned, " + ".join(f"ceil_div({s}, {PIECE})*{PIECE}" for s in sizes if s))
    needed = (sum(_room(*call.allocated[at]) for at in rest) for call in calls if call.allocated)
    return Results(returned, str(max(needed)), known=False)


def _result(calls: Sequence[MadeTensors], which: int) -> Tensor | None:
    if which < 0:
        return None
    kinds = {call.allocated[which][0] for call in calls}
    shapes = [call.allocated[which][1] for call in calls]
    dims = [call.case.dims for call in calls]
    shape = tuple(extent_of(values, dims) or "" for values in zip(*shapes, strict=False))
    kind = TORCH.get(kinds.pop()) if len(kinds) == 1 else None
    doubts = ("is this its shape?",) if not all(shape) else ()
    return Tensor("", "write", kind or "T", tuple(e or "1" for e in shape) or ("1",), doubts=doubts)


def _room(kind: int, sizes: Sequence[int]) -> int:
    bytes_ = math.prod(sizes) * ITEM_BYTES.get(TORCH.get(kind, "int64"), 8)
    return -(-bytes_ // PIECE) * PIECE


def _bytes(calls: Sequence[MadeTensors], at: int) -> str:
    """An expression of the bytes of one allocation, of its widest dtype, in the calls that need
    any; "" where none fits."""
    calls = [call for call in calls if _room(*call.allocated[at])]
    item = max(ITEM_BYTES.get(TORCH.get(call.allocated[at][0], "int64"), 8) for call in calls)
    counts = [math.prod(call.allocated[at][1]) for call in calls]
    dims = [call.case.dims for call in calls]
    shapes = zip(*(call.allocated[at][1] for call in calls), strict=False)
    whole = extent_of(counts, dims)
    parts = [extent_of(values, dims) for values in shapes]
    if whole is None and parts and all(parts):
        whole = "*".join(f"({part})" for part in parts if part)
    return f"{item}*({whole})" if whole else ""


def with_made(draft: Draft, made: Results) -> Draft:
    """The draft with the results and the workspace that the function makes."""
    tensors, binding = list(draft.tensors), dict(draft.binding)
    named = list(binding.get("returns", ()))  # type: ignore[call-overload]
    names: list[str] = []
    for at, found in enumerate(made.returned):
        if found is None:
            continue
        name = named[at] if at < len(named) else free_name("out", tensors)
        names.append(name)
        own = next((i for i, t in enumerate(tensors) if t.name == name), None)
        if own is None:
            tensors.insert(at, replace(found, name=name))
        else:
            dtype = tensors[own].dtype if found.dtype == "T" else found.dtype
            dtype = "T" if dtype in draft.variables.get("T", ()) else dtype
            shape = replace(tensors[own], shape=found.shape, dtype=dtype, doubts=found.doubts)
            tensors[own] = replace(shape, strides=(), access="write")
    if names:
        binding["returns"] = names
    if made.workspace:
        doubts = () if made.known else ("bytes of what the function allocates, by the dims",)
        name = free_name("workspace", tensors)
        tensors.append(replace(WORKSPACE, name=name, shape=(made.workspace,), doubts=doubts))
    return replace(draft, tensors=tuple(tensors), binding=binding)


def free_name(name: str, tensors: Sequence[Tensor]) -> str:
    """The name, or one with a number where a tensor has it."""
    taken = {tensor.name for tensor in tensors}
    numbered = (f"{name}_{at}" for at in range(1, 99))
    return name if name not in taken else next(n for n in numbered if n not in taken)
