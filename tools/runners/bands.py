"""What the band of a case rests on: for each element of a result the absolute sum of its terms,
as reference.py states it or as its results move when its inputs do; and the results of a kernel
that rounds an intermediate once, where the task allows that.

<arg>.terms      float32, stated by `terms` of reference.py
<arg>.derived    float32, the same derived from perturbed inputs
<arg>.rounded_down, <arg>.rounded_up    float64, like <arg>.expected: float32's roundings before
    that one may have moved the intermediate either way
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

from astra_chat.tools.run.oracle import DERIVED, ROUNDED, STATED
from astra_chat.tools.runners.answers import Tensors, copies, require, results, write
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case

SHIFT = 2.0**-20
"""Relative change of an input: small beside the inputs' own precision, large beside float64's."""
DRAWS = 4
"""So often all inputs are changed at random; once more the smallest are taken for zero."""
LEAST_NORMAL = 2.0**-126
DERIVED_BYTES = 2**21
"""Larger cases are judged without derived sums: reference.py runs a few times more for them."""


class NoFloat64(Exception):
    """reference.py does not take float64 for its inputs; the text says how it fails."""


def write_bands(
    task: Task, reference: Any, case: Case, inputs: Tensors, expected: Tensors, folder: Path
) -> None:
    """Write the files above beside the expected results of a case.

    Raises KeyError and ValueError where `terms` or `rounded` do not give what the contract says,
    and NoFloat64, which leaves the derived sums out.
    """
    judged = [arg for arg in task.args if has_band(arg, case)]
    if task.precision.intermediate:
        if not hasattr(reference, "rounded"):
            raise KeyError("[precision] names an intermediate, but reference.py has no rounded()")
        factor = task.band_factor(case)
        for suffix, shift in zip(ROUNDED, (-factor, factor), strict=True):
            others = {**expected, **reference.rounded(copies(inputs), shift)}
            for arg in judged:
                write(results(task, case, others)[arg.name], folder / f"{arg.name}.{suffix}")
    if hasattr(reference, "terms"):
        sums = reference.terms(inputs)
        for arg in judged:
            if arg.name in sums:
                require(arg.name, sums, arg.shape_of(case), torch.float64)
                write(sums[arg.name].float(), folder / f"{arg.name}.{STATED}")
        return
    size = sum(a.bytes_of(case) for a in task.args if a.read or a.written)
    narrow = [arg for arg in judged if ITEM_BYTES[arg.dtype_of(case)] < 4]
    if narrow and size <= DERIVED_BYTES:
        for name, found in derived(task, reference, case, inputs, expected, narrow).items():
            write(found.float(), folder / f"{name}.{DERIVED}")


def has_band(arg: Arg, case: Case) -> bool:
    """Whether each of its elements has a nearest value that a kernel should give."""
    return arg.written and arg.present(case) and arg.judged_by(case) in ("close", "quantized")


def derived(
    task: Task,
    reference: Any,
    case: Case,
    inputs: Tensors,
    expected: Tensors,
    args: list[Arg],
) -> dict[str, torch.Tensor]:
    """Sums of terms that no one states: |result| plus the largest change of the result over the
    relative change of the inputs. Raises NoFloat64.

    Of n terms with signs of chance the changes show sqrt(n), and so it is with a sum's roundings.
    Where numbers follow a pattern, its parts may be as large as all terms together: there the
    result for absolute inputs counts, the sum itself of a product, up to sqrt(n) times as much.
    """
    generator = torch.Generator().manual_seed(case.seed % 2**32)
    largest = {arg.name: torch.zeros(arg.shape_of(case), dtype=torch.float64) for arg in args}
    for draw in range(DRAWS + 1):
        changed = {
            name: _changed(value, generator, flush=draw == DRAWS) for name, value in inputs.items()
        }
        moved = _results_of(task, reference, case, changed)
        for name, most in largest.items():
            if (left := moved[name]) is None or (right := expected[name]) is None:
                return {}
            torch.maximum(most, _apart(left, right), out=most)
    longest = _longest(task, case)
    factor = 1.0
    if longest > 1:
        stated = task.precision.model_copy(update={"summands": str(longest)})
        factor = stated.factor({}) / task.precision.factor({})
    whole: Tensors = {}
    if longest > 1 and case.values != "normal":
        whole = _results_of(task, reference, case, {n: _size(v) for n, v in inputs.items()})
    found = {}
    for name, most in largest.items():
        value = expected[name]
        assert value is not None, "it was compared"
        terms = value.abs() + most / SHIFT
        if (positive := whole.get(name)) is not None:
            most_terms = torch.minimum(positive.nan_to_num(0.0), terms * math.sqrt(longest))
            terms = torch.maximum(terms, most_terms)
        found[name] = terms * factor
    return found


def _results_of(task: Task, reference: Any, case: Case, inputs: Tensors) -> Tensors:
    """The results for inputs of float64. Raises NoFloat64."""
    try:
        return results(task, case, reference.reference(inputs))
    except Exception as error:  # the user's code may be for the inputs' own dtypes alone
        raise NoFloat64(f"{type(error).__name__}: {error}") from None


def _size(value: torch.Tensor | None) -> torch.Tensor | None:
    """An input of floats without its signs, as float64; all else as it is."""
    floats = value is not None and value.is_floating_point() and value.dim()
    return value.double().abs() if value is not None and floats else value


def _apart(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """|left - right|, infinite where only one is a number."""
    apart = (left - right).abs()
    same = (left == right) | (left.isnan() & right.isnan())
    return torch.where(same, 0.0, apart.nan_to_num(nan=math.inf))


def _changed(
    value: torch.Tensor | None, generator: torch.Generator, *, flush: bool
) -> torch.Tensor | None:
    """An input of floats with each element moved up or down; with `flush`, without what fast maths
    takes for zero. Scalars and integers as they are."""
    if value is None or not value.is_floating_point() or not value.dim():
        return None if value is None else value.clone()
    exact = value.double()
    if flush:
        return torch.where(exact.abs() < LEAST_NORMAL, 0.0, exact)
    signs = torch.randint(0, 2, value.shape, generator=generator).double() * 2 - 1
    return exact * (1 + SHIFT * signs)


def _longest(task: Task, case: Case) -> int:
    """Terms of a sum, where the task does not state them: the longest axis that a result may be
    summed over, the last one of an input, or those that no result has. Otherwise 1."""
    longest = 1
    if task.precision.summands != "1":
        return longest
    kept = {extent for arg in task.args if arg.written for extent in arg.shape}
    for arg in task.args:
        if arg.read and arg.index is None:
            shape = arg.shape_of(case)
            summed = [n for n, text in zip(shape, arg.shape, strict=True) if text not in kept]
            longest = max(longest, shape[-1], math.prod(summed))
    return longest
