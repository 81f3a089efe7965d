"""The problem's module in float64 and in its own dtypes, what it is called with, and when a result
is right.

The tolerance is that of modules as tasks (tools/runners/module_values.py): rtol by dtype, and an
atol of four times PyTorch's own error, or that of a plain float32 sum. A result that agrees with
the module in its own dtypes is right, too: where the module itself is imprecise, that is the
problem's mistake.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from astra_chat.tools.runners.float64 import in_float64, wide
from astra_chat.tools.runners.module_values import ROOM, RTOL, in_order_error
from astra_chat.tools.runners.modules import loaded, outputs
from astra_chat.tools.walled.inside.operators import Operators

Grade = Literal["right", "imprecise", "wrong"]
GRADES: tuple[Grade, ...] = get_args(Grade)
"""The best first."""
Values = Sequence[Any]
State = Mapping[str, torch.Tensor]
COARSE = 1e-2
"""KernelBench's own tolerance, here of a result's usual size: what it passes is imprecise."""
FLOOR = 8.0
"""Rounding errors of a result of usual size that are always allowed."""


@dataclass(frozen=True)
class ExactCall:
    """What the module gives for one call."""

    exact: list[torch.Tensor]
    """float64, int64 or bool."""
    own: list[torch.Tensor]
    """In the module's dtypes."""
    changed: bool
    """Whether it changes its inputs."""
    alias: bool
    """Whether a result shares its memory with an input."""
    operators: list[str]
    longest: int
    """The largest extent of its inputs and weights."""

    def grade(self, got: Sequence[torch.Tensor]) -> tuple[Grade, str]:
        """How far the candidate's results, on the CPU, are right, and why not."""
        shapes = [[(tuple(o.shape), o.dtype) for o in some] for some in (got, self.own)]
        if shapes[0] != shapes[1]:
            return "wrong", f"its results are {shapes[0]}, the module's {shapes[1]}"[:200]
        worst: tuple[Grade, str] = "right", ""
        for one, exact, own in zip(got, self.exact, self.own, strict=True):
            grade, why = _grade(one.cpu(), exact.cpu(), own.cpu(), self.longest)
            if GRADES.index(grade) > GRADES.index(worst[0]):
                worst = grade, why
        return worst

    def finite(self) -> bool:
        return all(bool(o.isfinite().all()) for some in (self.exact, self.own) for o in some)


def _grade(
    got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor, longest: int
) -> tuple[Grade, str]:
    if not own.is_floating_point():
        same = bool(torch.equal(wide(got), exact) or torch.equal(got, own))
        return ("right", "") if same else ("wrong", "its integers differ")
    number, owned = wide(got), wide(own)
    rms = float(exact.square().mean().sqrt()) if exact.numel() else 0.0
    dtype = str(own.dtype).removeprefix("torch.")
    rtol = RTOL.get(dtype, RTOL["float32"])
    off = (owned - exact).abs()
    off = off[exact.abs() <= rms] if dtype == "float32" else off - rtol * exact.abs()
    atol = ROOM * max(0.0, float(off.max()) if off.numel() else 0.0)
    atol = max(atol, FLOOR * torch.finfo(own.dtype).eps * rms, in_order_error(longest, rms))
    if any(_within(number, right, rtol, atol) for right in (exact, owned)):
        return "right", ""
    error = float((number - exact).abs().nan_to_num(torch.inf).max())
    text = f"largest error {error:.2g} where results are {rms:.2g} (rms), allowed {atol:.1g}"
    return ("imprecise" if _within(number, exact, COARSE, COARSE * rms) else "wrong"), text


def _within(got: torch.Tensor, right: torch.Tensor, rtol: float, atol: float) -> bool:
    near = (got - right).abs() <= atol + rtol * right.abs()
    return bool((near | (got == right) | (got.isnan() & right.isnan())).all())


class ProblemModule:
    """`class Model`, get_inputs() and get_init_inputs() of a problem's file."""

    def __init__(self, path: Path, device: str) -> None:
        self._file, self.device = loaded(path, "problem"), device

    def made(self, seed: int) -> tuple[torch.nn.Module, Any]:
        """The module with the weights of a seed, and what it was built from."""
        init = self._file.get_init_inputs()
        seeded(seed)
        kind = self._file.Model
        model = kind(**init) if isinstance(init, dict) else kind(*init)
        return model.to(self.device), init

    def inputs(self, seed: int) -> list[Any]:
        """What get_inputs() draws under a seed, on the CPU."""
        seeded(seed)
        given = self._file.get_inputs()
        return [v.cpu() if isinstance(v, torch.Tensor) else v for v in given]

    def called(self, model: torch.nn.Module, inputs: Values) -> ExactCall:
        """Raises what the module raises."""
        given = on_device(inputs, self.device)
        watched = Operators()
        with torch.no_grad(), watched:
            results = outputs(copy.deepcopy(model)(*given))
        at = {v.untyped_storage().data_ptr() for v in given if isinstance(v, torch.Tensor)}
        alias = any(one.untyped_storage().data_ptr() in at for one in results)
        doubled = [
            v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for v in on_device(inputs, self.device)
        ]
        wider = copy.deepcopy(model).double()
        with in_float64():
            exact = [wide(one) for one in outputs(wider(*doubled))]
        own = [one.detach().clone() for one in results]
        held = [v for v in (*given, *model.state_dict().values()) if isinstance(v, torch.Tensor)]
        longest = max((extent for v in held for extent in v.shape), default=1)
        return ExactCall(exact, own, differ(given, inputs), alias, watched.names, longest)


def seeded(seed: int) -> None:
    """What torch.manual_seed does, without loading the compiler as that does."""
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def on_device(inputs: Values, device: str) -> list[Any]:
    return [v.to(device, copy=True) if isinstance(v, torch.Tensor) else v for v in inputs]


def differ(after: Values, before: Values) -> bool:
    """Whether any tensor has other values, on whatever device; NaN equals NaN."""
    pairs = [(a.cpu(), b) for a, b in zip(after, before, strict=True) if torch.is_tensor(b)]
    return any(a.shape != b.shape or not torch.allclose(a, b, 0, 0, True) for a, b in pairs)


def swapped(inputs: Values) -> list[Any]:
    """The values with stretches in the middle exchanged: equal in sums, first and last ones."""
    found = []
    for value in inputs:
        if torch.is_tensor(value) and value.numel() >= 8:
            flat, quarter = value.flatten().clone(), value.numel() // 4
            middle = flat[quarter : 3 * quarter].roll(quarter)
            flat[quarter : 3 * quarter] = middle
            value = flat.view(value.shape)
        found.append(value)
    return found


def other_values(inputs: Values, seed: int) -> Iterator[tuple[str, list[Any]]]:
    """Yields values of other kinds: a set that has no negative ones gets none."""
    seeded(seed)
    floats = [v for v in inputs if torch.is_tensor(v) and v.is_floating_point()]
    signed = any(bool((v < 0).any()) for v in floats)
    kinds = {
        "8 times as large": lambda v: v * 8,
        "uniform": lambda v: torch.rand_like(v) * 2 - 1 if signed else torch.rand_like(v),
        "with spikes": lambda v: torch.where(torch.rand_like(v) < 0.02, v * 50, v),
        "1/16 as large": lambda v: v / 16,
        "equal": lambda v: torch.full_like(v, 0.75),
    }
    if signed:
        kinds |= {"shifted by 3": lambda v: v + 3, "negative": lambda v: -v.abs()}
    for name, made in kinds.items():
        yield (
            name,
            [made(v) if torch.is_tensor(v) and v.is_floating_point() else v for v in inputs],
        )


def other_shapes(inputs: Values) -> Iterator[tuple[str, list[Any]]]:
    """Yields inputs with one extent changed wherever it occurs, first extents first."""
    tensors = [v for v in inputs if torch.is_tensor(v)]
    extents = dict.fromkeys(
        e for axis in range(8) for v in tensors for e in v.shape[axis : axis + 1]
    )
    for extent in [e for e in extents if e > 1]:
        for new in (extent // 2 + 1, extent + 1):
            yield (
                f"{new} for {extent}",
                [
                    _resized(v, [new if e == extent else e for e in v.shape])
                    if torch.is_tensor(v)
                    else v
                    for v in inputs
                ],
            )


def _resized(value: torch.Tensor, shape: list[int]) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    flat = value.flatten().repeat(count // max(1, value.numel()) + 1)[:count]
    return flat.view(shape)


def other_weights(model: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Values that no initialisation gives: scaled, and parameters shifted."""
    seeded(seed)
    found = {}
    parameters = dict(model.named_parameters())
    for name, value in model.state_dict().items():
        value = value.detach().cpu().clone()
        if value.is_floating_point():
            value *= 0.5 + torch.rand_like(value)
            if name in parameters:
                value += 0.1 * torch.randn_like(value)
        found[name] = value
    return found
