"""A captured call as a case of a contract, and where the two contradict each other.

Dims are solved from extents: if "2*d" is 256, d is 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from astra_chat.tools.capture.calls import SeenCall, SeenTensor
from astra_chat.tools.case import Packed
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.domain import Domain
from astra_chat.tools.task.expressions import assignments, evaluate, parse
from astra_chat.tools.task.placement import layout, placement_flaw
from astra_chat.tools.types import ITEM_BYTES, Case

WAYS: tuple[Packed, ...] = ("", "same", "rows", "tensors", "apart")
"""How arguments may lie to each other, in the order in which it is tried."""


class CallFit:
    """One captured call beside a contract; `names` are the parameters by the contract's names. Of
    `shapes_only` nobody knows the results."""

    def __init__(
        self,
        domain: Domain,
        names: Mapping[str, str],
        call: SeenCall,
        *,
        shapes_only: bool = False,
    ) -> None:
        self._domain, self._names, self._call = domain, names, call
        self._shapes_only = shapes_only
        seen = {**call.results, **call.tensors}
        self.tensors = {
            arg.name: flattened(arg, seen[names[arg.name]])
            for arg in domain.args
            if names.get(arg.name) in seen
        }

    def case(self) -> Case:
        """The case. Raises ValueError that says what does not fit."""
        absent = self._absent()
        types = self._types()
        scalars = self._scalars()
        fixed = {**self._domain.usual_scalars, **self._known_dims()}
        fixed |= {n: int(v) for n, v in scalars.items() if n in self._domain.usual_scalars}
        pairs = [
            (f"{arg.name}[{axis}]", extent, tensor.shape[axis])
            for arg in self._domain.args
            if (tensor := self.tensors.get(arg.name))
            for axis, extent in enumerate(joined(arg.shape, len(tensor.shape)))
        ]
        values = solved(tuple(self._domain.dims), fixed, pairs)
        case = Case(
            dims={name: values[name] for name in self._domain.dims},
            **types,
            absent=absent,
            scalars=scalars,
        )
        for arg in self._domain.args:
            if tensor := self.tensors.get(arg.name):
                self.tensors[arg.name] = split(tensor, arg.shape_of(case))
        case = case.model_copy(update={"pads": self._pads(case)})
        return self._placed(case)

    def _absent(self) -> tuple[str, ...]:
        missing = [
            arg
            for arg in self._domain.args
            if arg.access != "workspace" and arg.name not in self.tensors
            if not (self._shapes_only and arg.access == "write")
        ]
        if lacking := next((arg.name for arg in missing if not arg.optional), None):
            raise ValueError(f"the call passes no tensor for '{lacking}'")
        return tuple(arg.name for arg in missing)

    def _types(self) -> dict[str, Any]:
        """`dtype` and `types` of the case."""
        bound: dict[str, str] = {}
        for arg in self._domain.args:
            if (tensor := self.tensors.get(arg.name)) is None:
                continue
            is_variable = arg.dtype in self._domain.variables
            wanted = bound.setdefault(arg.dtype, tensor.dtype) if is_variable else arg.dtype
            if tensor.dtype != wanted:
                why = f", as {arg.dtype} of other arguments" if is_variable else ""
                raise ValueError(
                    f"'{arg.name}' is {tensor.dtype}, but the contract says {wanted}{why}"
                )
        first = next(iter(self._domain.variables), None)
        for combination in self._domain.combinations:
            own = {**({first: combination.dtype} if first else {}), **combination.types}
            if all(own[name] == dtype for name, dtype in bound.items()):
                return {"dtype": combination.dtype, "types": combination.types}
        chosen = ", ".join(f"{name} = {dtype}" for name, dtype in bound.items())
        raise ValueError(f"the contract has no combination of types with {chosen}")

    def _scalars(self) -> dict[str, float]:
        """Scalars that have another value than usual."""
        found = {}
        for scalar in self._domain.scalars:
            seen = self._call.values.get(self._names.get(scalar.name, ""))
            if seen is None:
                continue
            value: Any = seen.value
            if seen.counts:
                value = max(seen.counts, key=lambda pair: pair[1])[0]
            if not isinstance(value, int | float):
                raise ValueError(
                    f"'{scalar.name}' is {value!r}, but the contract says {scalar.type}"
                )
            if _equal_in_float(value, scalar.value):
                continue
            if not scalar.varies:
                raise ValueError(
                    f"'{scalar.name}' is {value:g}, but the contract allows only"
                    f" {scalar.value:g}: add others = [{value:g}] to allow it"
                )
            found[scalar.name] = float(value)
        return found

    def _known_dims(self) -> dict[str, int]:
        """Dims that the operator takes as integers."""
        seen = {d: self._call.values.get(self._names.get(d, "")) for d in self._domain.dims}
        return {d: v.value for d, v in seen.items() if v and isinstance(v.value, int)}

    def _pads(self, case: Case) -> dict[str, int | tuple[int, ...]]:
        found: dict[str, int | tuple[int, ...]] = {}
        for arg in self._domain.args:
            if arg.name not in self.tensors:
                continue
            pads = _pads(arg, case, self.tensors[arg.name])
            if any(pads):
                found[arg.name] = pads[0] if len(pads) == 1 else pads
        return found

    def _placed(self, case: Case) -> Case:
        """The case whose arguments lie as those of the call; where no way does, apart."""
        apart = case.model_copy(update={"packed": "apart"})
        for way in WAYS:
            tried = case.model_copy(update={"packed": way})
            if not placement_flaw(self._domain, tried) and self._lies_so(tried):
                return tried
        return apart if self._domain.packed else case

    def _lies_so(self, case: Case) -> bool:
        """Whether the arguments lie to each other as those of the call."""
        placed = layout(self._domain, case)
        own = {
            arg.name: (number if placed.blocks[number].one else -1 - at, offset)
            for at, (arg, (number, offset)) in enumerate(
                zip(self._domain.args, placed.places, strict=True)
            )
        }
        some = [name for name, tensor in self.tensors.items() if 0 not in tensor.shape]
        pairs = [(one, other) for at, one in enumerate(some) for other in some[at + 1 :]]
        return all(
            _distance(own[one], own[other]) == self._distance(one, other) for one, other in pairs
        )

    def _distance(self, one: str, other: str) -> int | None:
        first, second = self.tensors[one], self.tensors[other]
        return _distance((first.buffer, first.offset_bytes), (second.buffer, second.offset_bytes))

    def remarks(self, case: Case) -> Iterator[str]:
        """Where the call does what the contract does not say."""
        names, shared = self._domain.names_in(case), dict[int, list[str]]()
        for arg in self._domain.args:
            if (tensor := self.tensors.get(arg.name)) is None:
                continue
            if 0 not in tensor.shape:
                shared.setdefault(tensor.buffer, []).append(arg.name)
            if tensor.written and not arg.written:
                yield f"'{arg.name}' is written, but the contract says access = \"{arg.access}\""
            yield from _address_remarks(arg, case, tensor)
            yield from _value_remarks(arg, tensor, names)
        if not self._lies_so(case):
            for group in (group for group in shared.values() if len(group) > 1):
                yield (
                    f"{' and '.join(group)} are views of one buffer in a way that"
                    " neither packed nor same in the contract describes"
                )


def flattened(arg: Arg, tensor: SeenTensor) -> SeenTensor:
    """The tensor with as many axes as the contract has: leading axes as one. Raises ValueError."""
    shape, strides = list(tensor.shape), list(tensor.strides)
    while len(shape) > len(arg.shape):
        if shape[0] > 1 and shape[1] > 1 and strides[0] != strides[1] * shape[1]:
            raise ValueError(
                f"'{arg.name}' has {len(tensor.shape)} axes, but the contract says"
                f" {len(arg.shape)}, and with strides {list(tensor.strides)} its leading"
                " axes cannot be merged into one"
            )
        step = strides[1] if shape[1] > 1 or shape[0] == 1 else strides[0]
        shape[:2], strides[:2] = [shape[0] * shape[1]], [step]
    if not shape:
        raise ValueError(f"'{arg.name}' has no axis, but the contract says {list(arg.shape)}")
    return tensor.model_copy(update={"shape": tuple(shape), "strides": tuple(strides)})


def joined(extents: Sequence[str], axes: int) -> list[str]:
    """The extents of a contract as those of so many axes: the last ones as their product, which is
    how callers pass [tokens, heads * head_size]."""
    last = "*".join(f"({extent})" for extent in extents[axes - 1 :])
    return [*extents[: axes - 1], last] if axes < len(extents) else list(extents)


def split(tensor: SeenTensor, shape: tuple[int, ...]) -> SeenTensor:
    """The tensor whose last axis is split into those of this shape."""
    strides = list(tensor.strides)
    for extent in reversed(shape[len(strides) :]):
        strides.insert(len(tensor.shape) - 1, strides[len(tensor.shape) - 1] * extent)
    return tensor.model_copy(update={"shape": shape, "strides": tuple(strides)})


def _pads(arg: Arg, case: Case, tensor: SeenTensor) -> tuple[int, ...]:
    """How much each free stride exceeds the least. Raises ValueError."""
    names, given = arg.names_in(case), arg.strides or ("",) * len(tensor.shape)
    pads, dense, step = list[int](), 1, arg.stride_step(case)
    for extent, stride, stated in zip(
        reversed(tensor.shape), reversed(tensor.strides), reversed(given), strict=True
    ):
        if stated == "free":
            own = max(stride, dense) if extent <= 1 else stride
            if own < dense or own % step:
                raise ValueError(
                    f"'{arg.name}' has strides {list(tensor.strides)}: a free stride must"
                    f" be at least {dense}, in steps of {step}"
                )
            pads.append(own - dense)
        else:
            own = evaluate(stated, names) if stated else dense
            if extent > 1 and stride != own:
                raise ValueError(
                    f"'{arg.name}' has strides {list(tensor.strides)}, but the contract says"
                    f' {stated or "contiguous"}: set strides = ["free", ...] to let callers choose'
                )
        dense = max(dense, own * extent)
    return tuple(reversed(pads))


def _distance(one: tuple[int, int], other: tuple[int, int]) -> int | None:
    """Bytes from one place to another in one buffer; None: in two."""
    return other[1] - one[1] if one[0] == other[0] else None


def _equal_in_float(one: float, other: float) -> bool:
    """Whether two numbers are one as 32-bit floats."""
    return math.isclose(one, other, rel_tol=2**-24, abs_tol=0)


def _address_remarks(arg: Arg, case: Case, tensor: SeenTensor) -> Iterator[str]:
    needed = math.lcm(arg.min_alignment_bytes, ITEM_BYTES[arg.dtype_of(case)])
    if tensor.alignment_bytes % needed and tensor.values is not None:
        yield (
            f"'{arg.name}' is aligned to {tensor.alignment_bytes} bytes, but the contract"
            f" says {needed}: set alignment_bytes = {tensor.alignment_bytes}"
        )


def _value_remarks(arg: Arg, tensor: SeenTensor, names: Mapping[str, int]) -> Iterator[str]:
    seen = tensor.values
    if seen is None or not arg.read or seen.least is None or seen.greatest is None:
        return
    if arg.index is not None:
        low, high = arg.index.bounds(names)
        least = 0 if arg.index.none == seen.least else seen.least
        if least < low or seen.greatest >= high:
            yield (
                f"'{arg.name}' contains {seen.least:g} to {seen.greatest:g}, but the"
                f" contract says from {low} to below {high}"
            )
        kinds = {"sorted": seen.sorted, "permutation": seen.permutation, "slots": seen.unique}
        if not kinds.get(arg.index.kind, True):
            yield f"the contract says that '{arg.name}' is of kind {arg.index.kind}, but it is not"
        return
    if not (arg.may_hold(seen.least) and arg.may_hold(seen.greatest)):
        held = f"'{arg.name}' contains {seen.least:g} to {seen.greatest:g}"
        yield f"{held}, outside the contract's range"
    legal = {"any": 3, "no_nan": 2, "minus_inf": 1, "finite": 0}[arg.value_domain]
    if (
        (seen.nan and legal < 3)
        or (seen.infinity and legal < 2)
        or (seen.minus_infinity and legal < 1)
    ):
        yield (
            f"'{arg.name}' contains NaN or infinities, but the contract says values ="
            f" {arg.value_domain}"
        )


LARGEST = 2**40


def solved(
    dims: Sequence[str], known: Mapping[str, int], pairs: Sequence[tuple[str, str, int]]
) -> dict[str, int]:
    """A value for each of these dims, so that each expression has its extent. `pairs` are (where,
    expression, extent). Raises ValueError that says what does not hold, or cannot be known."""
    names = dict(known)
    order = sorted(pairs, key=lambda pair: _vagueness(pair[1]))
    left = list(order)
    while found := _next(left, names):
        names |= found
    for where, expression, extent in order:
        if parse(expression).names <= names.keys():
            value = evaluate(expression, names)
            if value != extent:
                some = {name: names[name] for name in sorted(parse(expression).names)}
                with_these = f" with {assignments(some)}" if some else ""
                raise ValueError(
                    f"{where} is {extent}, but the contract says {expression}"
                    + (f", which is {value}{with_these}" if some else "")
                )
    if unknown := [name for name in dims if name not in names]:
        raise ValueError(
            f"dim '{unknown[0]}' cannot be derived from the shapes: name its parameter with --map"
            f" {unknown[0]}=PARAMETER"
        )
    return names


def _vagueness(expression: str) -> int:
    """Expressions that say most of a dim come first: its name, then what has one solution."""
    if expression.isidentifier():
        return 0
    return 2 if any(word in expression for word in ("//", "ceil_div", "%", "min", "max")) else 1


def _next(pairs: Sequence[tuple[str, str, int]], names: Mapping[str, int]) -> dict[str, int]:
    """The value of one more dim; empty: none follows."""
    for _, expression, extent in pairs:
        unknown = parse(expression).names - names.keys()
        if len(unknown) == 1:
            name = next(iter(unknown))
            value = _solution(expression, extent, name, names)
            if value is not None:
                return {name: value}
    return {}


def _solution(expression: str, extent: int, name: str, names: Mapping[str, int]) -> int | None:
    """The value that gives this extent, for expressions that grow with the dim. Of several the one
    that is divided by the largest power of two: 512 for ceil_div(d, 128) = 4."""

    def at(value: int) -> int:
        try:
            return evaluate(expression, {**names, name: value})
        except ZeroDivisionError:
            return -1

    least = _first(lambda value: at(value) >= extent)
    if least is None or at(least) != extent:
        return None
    after = _first(lambda value: at(value) > extent)
    greatest = least if after is None else after - 1
    return max((least, greatest), key=lambda value: value & -value)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The least number from 0 on for which it holds, if it holds from there on."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, high * 2
        if high > LARGEST:
            return None
    if holds(0):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
