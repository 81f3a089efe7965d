"""What is wrong with a task's reference.py itself, found on a case before anything is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from astra_chat.tools.runners.answers import Tensors, answered, copies, named_values, results
from astra_chat.tools.runners.references import line_of
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case


def fault(task: Task, reference: Any, case: Case, inputs: Callable[[], Tensors]) -> dict[str, Any]:
    """The first fault and the line of its function; no words where there is none. `inputs` draws
    the case's inputs."""
    name, words = next(_faults(task, reference, case, inputs), ("", ""))
    line = line_of(reference, name) if name else 0
    return {"fault": words, "line": line}


def _faults(
    task: Task, reference: Any, case: Case, inputs: Callable[[], Tensors]
) -> Iterator[tuple[str, str]]:
    drawn = inputs()
    if other := _different(drawn, inputs()):
        yield (
            "make_inputs",
            f"make_inputs draws a different '{other}' if it is called again with the same seed",
        )
    given = drawn | named_values(task, case)
    before = copies(given)
    expected = results(task, case, reference.reference(given))
    if other := _different(before, given):
        yield "reference", f"reference writes to its input '{other}'"
    asked = [a.name for a in task.args if a.written and a.judged_by(case) == "accept"]
    if asked and not hasattr(reference, "accept"):
        yield (
            "reference",
            f"'{asked[0]}' is judged by accept, but reference.py defines no function accept",
        )
    if other := _different(expected, results(task, case, reference.reference(copies(before)))):
        yield "reference", f"reference returns a different '{other}' for the same inputs"
    if any(arg.written and arg.judged_by(case) == "distribution" for arg in task.args):
        return
    outputs = _as_written(task, case, expected)
    if hasattr(reference, "accept"):
        said = answered(reference.accept(copies(before), copies(outputs)))
        if said["why"]:
            yield "accept", f"accept refuses what reference returns: {said['why']}"
    if hasattr(reference, "canonical"):
        once = {**outputs, **reference.canonical(copies(outputs), copies(before))}
        twice = {**once, **reference.canonical(copies(once), copies(before))}
        if other := _different(once, twice):
            yield "canonical", f"canonical() changes '{other}', which is already in canonical form"


def _as_written(task: Task, case: Case, expected: Tensors) -> Tensors:
    """Expected results as a kernel would write them."""
    outputs: Tensors = {}
    for arg in task.args:
        if not arg.written:
            continue
        tensor, dtype = expected[arg.name], getattr(torch, arg.dtype_of(case))
        if tensor is not None and tensor.is_floating_point():
            if not dtype.is_floating_point:
                tensor = tensor.round()
            if dtype.itemsize == 1:  # such results saturate
                info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
                tensor = tensor.clamp(info.min, info.max)
        outputs[arg.name] = None if tensor is None else tensor.to(dtype)
    return outputs


def _different(left: Tensors, right: Tensors) -> str:
    """The first tensor whose bits differ."""
    for name, tensor in left.items():
        other = right.get(name)
        if isinstance(tensor, torch.Tensor) and (other is None or not _same(tensor, other)):
            return name
    return ""


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
    return torch.equal(*bits)
