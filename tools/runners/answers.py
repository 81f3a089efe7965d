"""What a task's reference.py gives and gets: results of the right dtypes, and what accept and
canonical say of a kernel's outputs.

Outputs are a candidate's, so they may hold anything that their dtypes can.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from astra_chat.tools.check.kinds import vocabulary
from astra_chat.tools.run.oracle import expected_dtype
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case

Tensors = dict[str, torch.Tensor | None]
"""Tensors by name; None: an argument that is absent."""
MAX_SUM_ERROR = 1e-9


def answer(
    task: Task, reference: Any, case: Case, inputs: Tensors, shown: Path, canonical_folder: Path
) -> dict[str, Any]:
    """Returns what accept of reference.py says of the outputs <arg>.out in the folder `shown`;
    writes <arg>.canonical to the other folder where there is a canonical form."""
    written = [arg for arg in task.args if arg.written]
    outputs: Tensors = {
        arg.name: read(shown / f"{arg.name}.out", arg, case) if arg.present(case) else None
        for arg in written
    }
    said = {"why": "", "argument": "", "place": []}
    if accept := getattr(reference, "accept", None):
        said = answered(accept(copies(inputs), copies(outputs)))
    if not said["why"] and (canonical := getattr(reference, "canonical", None)):
        ordered = canonical(copies(outputs), copies(inputs))
        for arg in written:
            if arg.present(case):
                dtype = getattr(torch, arg.dtype_of(case))
                require(arg.name, ordered, arg.shape_of(case), dtype)
            write(ordered.get(arg.name), canonical_folder / f"{arg.name}.canonical")
    return said


def in_canonical_form(reference: Any, expected: Tensors, inputs: Tensors) -> tuple[Tensors, bool]:
    """The expected outputs, and whether the task has a canonical form."""
    canonical = getattr(reference, "canonical", None)
    if canonical is None:
        return expected, False
    return {**expected, **canonical(copies(expected), copies(inputs))}, True


def named_values(task: Task, case: Case) -> Tensors:
    """Dims, int64, and scalars, float64, of shape (): the values that the launcher gets; a float is
    rounded to 32 bits."""
    kinds = {"float": torch.float32, "int64_t": torch.int64, "bool": torch.bool}
    values: Tensors = {name: torch.tensor(extent) for name, extent in case.dims.items()}
    for scalar in task.scalars:
        given = torch.tensor(scalar.value_in(case), dtype=kinds[scalar.type])
        values[scalar.name] = given.double()
    return values


def results(task: Task, case: Case, given: Tensors) -> Tensors:
    """What reference.py expects of the written arguments, float64 or int64. Raises KeyError and
    ValueError where it is not what the contract says."""
    expected: Tensors = dict(given)
    for arg in task.args:
        if not arg.written or not arg.present(case):
            expected[arg.name] = None
        elif arg.judged_by(case) == "distribution":
            _require_probabilities(arg, task, case, given)
        elif arg.dtype_of(case) == "bool":
            require(arg.name, given, arg.shape_of(case), torch.bool)
            expected[arg.name] = _tensor(given, arg.name).long()
        else:
            dtype = getattr(torch, expected_dtype(arg, case))
            require(arg.name, given, arg.shape_of(case), dtype)
    return expected


def _require_probabilities(arg: Arg, task: Task, case: Case, given: Tensors) -> None:
    """Require float64 probabilities for the draws of a row, or for each draw: [..., symbols].
    Raises KeyError or ValueError."""
    symbols, shape = vocabulary(task, arg, case), arg.shape_of(case)
    table = _tensor(given, arg.name)
    each = tuple(table.shape) == (*shape, symbols)
    require(arg.name, given, (*(shape if each else shape[:-1]), symbols), torch.float64)
    if (table < 0).any() or (table.sum(dim=-1) - 1).abs().max() > MAX_SUM_ERROR:
        raise ValueError(
            f"'{arg.name}' of reference.py: the probabilities of a row do not add up to 1"
        )


def read(path: Path, arg: Arg, case: Case) -> torch.Tensor:
    """An argument's elements out of a file of their bytes."""
    dtype, shape = getattr(torch, arg.dtype_of(case)), arg.shape_of(case)
    if not arg.bytes_of(case):
        return torch.empty(shape, dtype=dtype)
    content = torch.from_file(str(path), size=arg.bytes_of(case), dtype=torch.uint8)
    return content.clone().view(dtype).view(shape)


def write(tensor: torch.Tensor | None, path: Path) -> None:
    """Write the bytes of a tensor's elements, in row-major order; of an argument that is absent
    none."""
    content = torch.empty(0) if tensor is None else tensor.contiguous().reshape(-1)
    content.view(torch.uint8).numpy().tofile(path)


def require(name: str, tensors: Tensors, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Raise KeyError or ValueError unless reference.py gives it so."""
    tensor = _tensor(tensors, name)
    if tuple(tensor.shape) != shape or tensor.dtype != dtype:
        raise ValueError(
            f"reference.py returns '{name}' as {tensor.dtype} {tuple(tensor.shape)}, but the"
            f" contract says {dtype} {shape}"
        )


def _tensor(tensors: Tensors, name: str) -> torch.Tensor:
    if name not in tensors:
        raise KeyError(f"reference.py returns no '{name}'")
    tensor = tensors[name]
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"reference.py returns '{name}', which is not a tensor")
    return tensor


def answered(answered: Any) -> dict[str, Any]:
    """Returns what accept said as fields. `answered`: None, "why", or ("why", place); a place is an
    index, or an argument's name and an index."""
    why, place = answered if isinstance(answered, tuple) else (answered, ())
    if why is None:
        return {"why": "", "argument": "", "place": ()}
    where = list(place) if isinstance(place, tuple | list) else [place]
    name = str(where.pop(0)) if where and isinstance(where[0], str) else ""
    if not isinstance(why, str) or not why:
        raise TypeError(f"accept must return None or a reason, not {why!r}")
    return {"why": why, "argument": name, "place": [int(i) for i in where]}


def copies(tensors: Tensors) -> Tensors:
    """Returns copies of the tensors: functions of reference.py may write to what they are given."""
    return {
        name: tensor.clone() if isinstance(tensor, torch.Tensor) else tensor
        for name, tensor in tensors.items()
    }
