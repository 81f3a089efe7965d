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
    inputs: Values = ()
    """On the module's device."""
    coarse: float = COARSE
    """What is imprecise within it, of a result's usual size."""

    def grade(self, got: Sequence[torch.Tensor]) -> tuple[Grade, str]:
        """How far the candidate's results, on any device, are right, and why not."""
        shapes = [[(tuple(o.shape), o.dtype) for o in some] for some in (got, self.own)]
        if shapes[0] != shapes[1]:
            return "wrong", f"its results are {shapes[0]}, but the module's are {shapes[1]}"[:200]
        worst: tuple[Grade, str] = "right", ""
        for one, exact, own in zip(got, self.exact, self.own, strict=True):
            grade, why = self._grade(one.to(exact.device), exact, own)
            if GRADES.index(grade) > GRADES.index(worst[0]):
                worst = grade, why
        return worst

    def finite(self) -> bool:
        return all(bool(wide(o).isfinite().all()) for some in (self.exact, self.own) for o in some)

    def agrees(self) -> bool:
        """Whether the module in its own dtypes gives what it gives in float64: where it does not,
        as where it leaves memory as it is, nobody can be right."""
        pairs = zip(self.exact, self.own, strict=True)
        return all(
            _within(wide(own), exact, self.coarse, self.coarse * _rms(exact))
            for exact, own in pairs
            if own.is_floating_point()
        )

    def _grade(
        self, got: torch.Tensor, exact: torch.Tensor, own: torch.Tensor
    ) -> tuple[Grade, str]:
        if not own.is_floating_point():
            same = bool(torch.equal(wide(got), exact) or torch.equal(got, own))
            same = same or _same_places(got, own, self.inputs)
            return ("right", "") if same else ("wrong", "its integers differ")
        return _float_grade(wide(got), exact, own, self.longest, self.coarse)


def _rms(exact: torch.Tensor) -> float:
    return float(exact.square().mean().sqrt()) if exact.numel() else 0.0


def _float_grade(
    number: torch.Tensor, exact: torch.Tensor, own: torch.Tensor, longest: int, coarse: float
) -> tuple[Grade, str]:
    owned, rms = wide(own), _rms(exact)
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
    return ("imprecise" if _within(number, exact, coarse, coarse * rms) else "wrong"), text


def _same_places(got: torch.Tensor, right: torch.Tensor, inputs: Values) -> bool:
    """Whether both point at equal values of an input, and `got` at no place twice where `right`
    does not: top-k and its kin choose freely among equal values."""
    if got.shape != right.shape or got.dtype == torch.bool:
        return False
    for value in inputs:
        for axis in range(value.dim() if torch.is_tensor(value) else 0):
            places = [one.long() for one in (got, right)]
            if right.dim() == value.dim() - 1:
                places = [one.unsqueeze(axis) for one in places]
            rest = [[*one.shape[:axis], *one.shape[axis + 1 :]] for one in (value, *places)]
            if rest.count(rest[0]) < 3 or any(not _inside(p, value.shape[axis]) for p in places):
                continue
            picked = [torch.gather(value, axis, one) for one in places]
            if torch.equal(*picked) and _twice(places[0], axis) <= _twice(places[1], axis):
                return True
    return False


def _inside(places: torch.Tensor, extent: int) -> bool:
    return bool(((places >= 0) & (places < extent)).all())


def _twice(places: torch.Tensor, axis: int) -> int:
    return int((places.sort(axis).values.diff(dim=axis) == 0).sum())


def _within(got: torch.Tensor, right: torch.Tensor, rtol: float, atol: float) -> bool:
    near = (got - right).abs() <= atol + rtol * right.abs()
    return bool((near | (got == right) | (got.isnan() & right.isnan())).all())


class ProblemModule:
    """`class Model`, get_inputs() and get_init_inputs() of a problem's file."""

    def __init__(self, path: Path, device: str) -> None:
        self._file, self.device = loaded(path, "problem"), device
        self.sizes: Sequence[Any] = getattr(self._file, "SIZES", ())
        """Other sizes that its authors check with."""
        self._coarse = max(COARSE, getattr(self._file, "TOLERANCE", 0.0))

    def use(self, size: Any) -> None:
        """Takes another of `sizes` from now on."""
        self._file.use_size(size)

    def other_values(self, inputs: Values, seed: int) -> Iterator[tuple[str, list[Any]]]:
        """Values of other kinds: those of its authors, where they name any."""
        own = getattr(self._file, "get_other_values", None)
        return own(inputs) if own else other_values(inputs, seed)

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
        before = on_device(inputs, self.device)
        doubled = [
            wide(v) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in before
        ]
        wider = copy.deepcopy(model).double()
        with in_float64():
            exact = [wide(one) for one in outputs(wider(*doubled))]
        own = [one.detach().clone() for one in results]
        changed = differ(given, inputs)
        held = [v for v in (*given, *model.state_dict().values()) if isinstance(v, torch.Tensor)]
        longest = max((extent for v in held for extent in v.shape), default=1)
        return ExactCall(exact, own, changed, alias, watched.names, longest, before, self._coarse)


def seeded(seed: int) -> None:
    """What torch.manual_seed does, without loading the compiler as that does."""
    torch.default_generator.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)


def on_device(inputs: Values, device: str) -> list[Any]:
    return [v.to(device, copy=True) if isinstance(v, torch.Tensor) else v for v in inputs]


def differ(after: Values, before: Values) -> bool:
    """Whether any tensor has other values, on whatever device; NaN equals NaN."""
    pairs = [(a.to(b.device), b) for a, b in zip(after, before, strict=True) if torch.is_tensor(b)]
    return any(
        a.shape != b.shape or not torch.allclose(_plain(a), _plain(b), 0, 0, True) for a, b in pairs
    )


def _plain(value: torch.Tensor) -> torch.Tensor:
    """Floats of 8 bits as float32: few operators take them as they are."""
    return value.float() if value.is_floating_point() and value.element_size() == 1 else value


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
    floats = [_plain(v) for v in inputs if torch.is_tensor(v) and v.is_floating_point()]
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
            [
                made(_plain(v)).to(v.dtype) if torch.is_tensor(v) and v.is_floating_point() else v
                for v in inputs
            ],
        )


def other_shapes(inputs: Values) -> Iterator[tuple[str, list[Any]]]:
    """Yields inputs with one extent changed wherever it occurs, first extents first. None where
    any are integers: these may be places, counts or offsets, which belong to the shape."""
    tensors = [v for v in inputs if torch.is_tensor(v)]
    if any(not v.is_floating_point() and v.dtype != torch.bool for v in tensors):
        return
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


def other_weights(model: torch.nn.Module, seed: int, drawn: State) -> dict[str, torch.Tensor]:
    """Values that no initialisation gives, on the CPU: parameters scaled and shifted. Buffers have
    the values of another seed, `drawn`, or half of their own: they may belong together."""
    seeded(seed)
    found = {}
    parameters = dict(model.named_parameters())
    for name, value in model.state_dict().items():
        value, other = value.detach().cpu().clone(), drawn[name].detach().cpu()
        if name in parameters and value.element_size() > 1 and value.is_floating_point():
            value *= 0.5 + torch.rand_like(value)
            value += 0.1 * torch.randn_like(value)
        elif differ([value], [other]):
            value = other.clone()
        elif value.is_floating_point() and value.element_size() > 1:
            value *= 0.5
        found[name] = value
    return found
