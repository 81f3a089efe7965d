"""Values with which a module is called, and how far PyTorch's own results are off then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import torch

from astra_chat.tools.runners.modules import SAMPLE, BadModule, ModuleFunction, outputs
from astra_chat.tools.runners.values import Range, draw_in_range
from astra_chat.tools.task.expressions import evaluate, holds
from astra_chat.tools.types import AnyFamily

USUAL = 4.0
"""Inputs of a module that takes any numbers are drawn up to this magnitude, or to their own."""
ROOM = 4.0
"""So many times PyTorch's own error, at its largest, is within the tolerance."""
IN_ORDER = 4.0
"""Roundings of a result's usual size that a float32 sum of n terms may be off, added up one by one,
times sqrt(n): a few standard deviations. PyTorch's own sums, of blocks, are better."""
RTOL = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}
MANY_WEIGHTS = 2**24
"""A module with more numbers in its weights than this is called with one drawing of them: drawing
them for each of about a hundred calls takes minutes."""
MOST_ELEMENTS = 2**22
"""Larger calls are not made: the file's own sizes may take a processor minutes."""
FAMILIES: tuple[AnyFamily, ...] = ("normal", "large", "ramp", "shifted", "mixed_rows", "zeros")
EXTENTS = (1, 2, 3, 7, 16, 33)


def measured(function: ModuleFunction, contract: Mapping[str, Any]) -> dict[str, Any]:
    """Ranges of the arguments, dims as far as the module runs with them, and tolerances."""
    run = _ModuleCalls(function, contract)
    ranges = run.ranges()
    sizes = run.sizes(ranges)
    return {"ranges": ranges, "sizes": sizes, "tolerance": run.tolerance(ranges, sizes)}


class _ModuleCalls:
    """Calls of the module at several sizes."""

    def __init__(self, function: ModuleFunction, contract: Mapping[str, Any]) -> None:
        self._function, self._contract = function, contract
        self._args = {**contract["inputs"], **contract["weights"]}
        self._own = contract["dims"]
        sizes = [function.weight(name).numel() for name in contract["weights"]]
        self._many = sum(sizes) > MANY_WEIGHTS
        self._weights: dict[tuple[str, float, float], torch.Tensor] = {}
        """The one drawing of many weights, by argument and range."""
        self._wide: dict[str, torch.Tensor] = {}
        """Many weights in float64, as drawn in the last range."""

    def ranges(self) -> dict[str, list[float]]:
        """Values of each argument: as wide as its own are, and of both signs where the module
        then still gives numbers. Raises BadModule where it gives none even with its own."""
        found = {}
        for name in self._args:
            own: Any = self._function.values.get(self._function.inputs.get(name, ""))
            weight = name in self._function.weights
            value = self._function.weight(name) if weight else own.flatten()[:SAMPLE]
            found[name] = _own_range(value.float(), USUAL if not weight else 1.0)
        dims = self._small()
        if self._finite(dims, found):
            return found
        for name, (_, high) in found.items():
            tried = {**found, name: [high / 64, high]}
            if self._finite(dims, tried):
                return tried
        positive = {name: [high / 64, high] for name, (_, high) in found.items()}
        if self._finite(dims, positive):
            return positive
        raise BadModule("its results are not finite for finite inputs")

    def sizes(self, ranges: Mapping[str, list[float]]) -> list[dict[str, int]]:
        """Sizes at which forward ran and gave the shapes of the contract. Raises BadModule."""
        wanted = [dict.fromkeys(self._own, extent) for extent in EXTENTS]
        wanted += [{**self._small(), name: extent} for name in self._own for extent in (1, 5)]
        found = []
        for dims in wanted:
            if dims not in found and self._allowed(dims) and self._shapes_fit(dims, ranges):
                found.append(dims)
        if not found:
            found = [dict(self._own)]
        return found

    def tolerance(
        self, ranges: Mapping[str, list[float]], sizes: list[dict[str, int]]
    ) -> dict[str, list[float]]:
        """rtol and atol by dtype, from PyTorch's own results beside those in float64."""
        worst: dict[str, float] = {}
        calls = [dims for dims in [*sizes, self._small()] if self._elements(dims) <= MOST_ELEMENTS]
        for seed, (dims, family) in enumerate(product(calls, FAMILIES)):
            given = self._drawn(dims, ranges, seed, family)
            wide = {name: self._double(name, value) for name, value in given.items()}
            exact = self._called(wide, torch.float64)
            for one, right in zip(self._called(given), exact, strict=True):
                dtype = str(one.dtype).removeprefix("torch.")
                off = (one.double() - right).abs()
                if dtype == "float32":  # of results of usual size: others are within rtol
                    off = off[right.abs() <= right.square().mean().sqrt()]
                else:
                    off -= RTOL[dtype] * right.abs()
                worst[dtype] = max(worst.get(dtype, 0.0), float(off.max()) if off.numel() else 0.0)
        worst["float32"] = max(worst.get("float32", 0.0), self._in_order(ranges) / ROOM)
        dtypes = {one["dtype"] for one in self._contract["outputs"]}
        return {d: [RTOL[d], _rounded_up(ROOM * worst.get(d, 0.0))] for d in sorted(dtypes)}

    def _in_order(self, ranges: Mapping[str, list[float]]) -> float:
        """Error of plain sums at the file's own sizes, or smaller ones where those are large."""
        dims = self._own if self._elements(self._own) <= MOST_ELEMENTS else self._small()
        shapes = [one["shape"] for one in self._args.values()]
        longest = max((evaluate(extent, dims) for shape in shapes for extent in shape), default=1)
        results = [one.double() for one in self._called(self._drawn(dims, ranges))]
        sizes = [float(one.square().mean().sqrt()) for one in results if one.numel()]
        return in_order_error(longest, max(sizes, default=0.0))

    def _small(self) -> dict[str, int]:
        """The file's sizes, or smaller ones where they are allowed."""
        for most in (16, 33, 64, 128, 256):
            dims = {name: min(extent, most) for name, extent in self._own.items()}
            if self._allowed(dims):
                return dims
        return dict(self._own)

    def _allowed(self, dims: Mapping[str, int]) -> bool:
        if not all(holds(relation, dims) for relation in self._contract["require"]):
            return False
        shapes = [one["shape"] for one in [*self._args.values(), *self._contract["outputs"]]]
        return all(evaluate(extent, dims) >= 1 for shape in shapes for extent in shape)

    def _elements(self, dims: Mapping[str, int]) -> int:
        inputs = self._contract["inputs"].values()
        return max(math.prod(evaluate(e, dims) for e in one["shape"]) for one in inputs)

    def _drawn(
        self,
        dims: Mapping[str, int],
        ranges: Mapping[str, list[float]],
        seed: int = 0,
        family: AnyFamily = "normal",
    ) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        drawn = {}
        for name, arg in self._args.items():
            low, high = ranges[name]
            kept = self._many and name in self._function.weights
            if kept and (name, low, high) in self._weights:
                drawn[name] = self._weights[name, low, high]
                continue
            shape = tuple(evaluate(extent, dims) for extent in arg["shape"])
            dtype, between = getattr(torch, arg["dtype"]), Range(seed, low, high)
            chosen: AnyFamily = "normal" if kept else family
            drawn[name] = draw_in_range(chosen, generator, shape or (1,), dtype, between)
            drawn[name] = drawn[name].view(shape)
            if kept:
                self._weights[name, low, high] = drawn[name]
        return drawn

    def _double(self, name: str, value: torch.Tensor) -> torch.Tensor:
        """An argument in float64; many weights are converted once."""
        if not (self._many and name in self._function.weights):
            return value.double()
        if name not in self._wide:
            self._wide[name] = value.double()
        return self._wide[name]

    def _called(
        self, values: Mapping[str, torch.Tensor], dtype: torch.dtype | None = None
    ) -> list[torch.Tensor]:
        weights = {n: v for n, v in values.items() if n in self._function.weights}
        given = {n: v for n, v in values.items() if n not in weights}
        usual = torch.get_default_dtype()
        torch.set_default_dtype(dtype or usual)
        try:
            with torch.no_grad():
                return outputs(self._function.called(given, weights))
        finally:
            torch.set_default_dtype(usual)

    def _finite(self, dims: Mapping[str, int], ranges: Mapping[str, list[float]]) -> bool:
        found = self._called(self._drawn(dims, ranges))
        return all(bool(one.isfinite().all()) for one in found)

    def _shapes_fit(self, dims: Mapping[str, int], ranges: Mapping[str, list[float]]) -> bool:
        if self._elements(dims) > MOST_ELEMENTS:
            return False
        try:
            found = self._called(self._drawn(dims, ranges))
        except (RuntimeError, ValueError, IndexError):
            return False
        shapes = [[evaluate(e, dims) for e in o["shape"]] for o in self._contract["outputs"]]
        return [list(one.shape) for one in found] == shapes


def in_order_error(longest: int, size: float) -> float:
    """Returns how far a float32 result may be off whose terms are added up one by one.

    Args:
        longest: the largest extent of the arguments, at most so many terms as a rule.
        size: root mean square of the results.
    """
    return IN_ORDER * 2.0**-24 * math.sqrt(longest) * size


def _own_range(value: torch.Tensor, usual: float) -> list[float]:
    low, high = float(value.min()), float(value.max())
    if low == high and low > 0 and usual == 1.0:
        return [low / 4, 4 * low]  # a scale, or a variance
    most = max(abs(low), abs(high))
    most = _rounded_up(most) if most else usual
    if usual > 1.0:
        most = max(most, usual)
    return [-most, most]


def _rounded_up(number: float) -> float:
    """The next number of one digit, at least 1e-6."""
    number = max(number, 1e-6)
    unit = 10.0 ** math.floor(math.log10(number))
    return float(f"{math.ceil(number / unit - 1e-9) * unit:.1g}")
