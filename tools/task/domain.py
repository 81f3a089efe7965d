"""The legal domain of a kernel: its parameters, and which calls of it a caller may make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field, field_validator

from astra_chat.tools.task.batch_invariance import BatchInvariant, rows_flaw
from astra_chat.tools.task.contract import (
    INTEGERS,
    MEASURED,
    Arg,
    Dim,
    Name,
    Scalar,
    Variable,
    names_in,
)
from astra_chat.tools.task.expressions import Extent, Relation, assignments, evaluate
from astra_chat.tools.task.groups import Group, groups_of
from astra_chat.tools.task.placement import layout, placement_flaw
from astra_chat.tools.task.relations import broken
from astra_chat.tools.task.spans import elements_spanned
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, Value, is_float

MAX_BYTES = 2**26
"""Most bytes of the buffers of one case that a tester may ask for."""
ADDRESSABLE = 2**63
SPECIAL_FAMILIES = ("special", "mixed_rows")
"""Families of NaN and infinities."""
Place = tuple[str | int, ...]
"""Where in task.toml something stands: ("args", 1, "shape", 0)."""


class Combination(NamedTuple):
    """What the type variables stand for in a case."""

    dtype: DTypeName
    """Dtype of the first variable, "T"; without variables that of the first result."""
    types: dict[str, DTypeName]
    """Dtypes of the other variables, by name."""

    @staticmethod
    def of(case: Case) -> Combination:
        """Returns the combination of any case; a task need not allow it."""
        return Combination(case.dtype, dict(case.types))

    def case(self, dims: Mapping[str, int]) -> Case:
        return Case(dims=dict(dims), dtype=self.dtype, types=self.types)


class Domain(Value):
    """What a caller may pass to a launcher."""

    args: tuple[Arg, ...] = Field(min_length=1)
    scalars: tuple[Scalar, ...] = ()
    dims: dict[Name, Dim] = Field(min_length=1)
    types: tuple[dict[Variable, DTypeName], ...] = Field(min_length=1)
    """The legal combinations of type variables; an empty one where all dtypes are fixed."""
    require: tuple[Relation, ...] = ()
    """Relations between dims: "rot_dim <= head_size"."""
    batch_invariant: BatchInvariant | None = None
    """Results of which a row has the same bits in every batch."""
    packed: tuple[Group, ...] = ()
    """Arguments that callers pass as views of one buffer: ["query", "key"]."""
    same: tuple[Group, ...] = ()
    """Arguments that callers may pass by one pointer: ["input", "out"]."""
    flops: Extent
    """Operations of one call, for the physical limit: "8*tokens*d"."""
    stated_least_bytes: Extent | None = Field(default=None, validation_alias="least_bytes")
    """Bytes that any kernel must move, where that is not each argument once."""

    @field_validator("packed", "same", mode="before")
    @classmethod
    def _groups(cls, raw: Any) -> Any:
        return groups_of(raw)

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(self.types[0])

    @property
    def combinations(self) -> tuple[Combination, ...]:
        found = []
        for types in self.types:
            others = {name: types[name] for name in self.variables[1:]}
            first = types[self.variables[0]] if types else self._fixed_dtype
            found.append(Combination(first, others))
        return tuple(found)

    @property
    def dtypes(self) -> tuple[DTypeName, ...]:
        """Dtypes that the first type variable may stand for."""
        return tuple(dict.fromkeys(combination.dtype for combination in self.combinations))

    @property
    def _fixed_dtype(self) -> DTypeName:
        first = next((arg for arg in self.args if arg.written), self.args[0])
        return first.dtype_of(Case(dims={}, dtype="float32"))

    @property
    def usual_scalars(self) -> dict[str, int]:
        """Integer scalars, which expressions may name."""
        return {s.name: int(s.value) for s in self.scalars if s.type == "int64_t"}

    def names_in(self, case: Case) -> dict[str, int]:
        """What the names in its expressions stand for."""
        return names_in(case, self.usual_scalars)

    def allows(self, case: Case) -> bool:
        """Whether the case lies in the contract's domain."""
        try:
            self.require_legal(case)
        except ValueError:
            return False
        return True

    def require_legal(self, case: Case) -> None:
        """Raise ValueError unless the case lies in the contract's domain."""
        self._require_types(case)
        if set(case.dims) != set(self.dims):
            raise ValueError(f"dims {sorted(case.dims)} are not {sorted(self.dims)}")
        self._require_pads(case)
        self._require_legal_by_name(case)
        for name, dim in self.dims.items():
            extent = case.dims[name]
            if not dim.allows(extent, case.dtype):
                raise ValueError(f"{name} = {extent} is {_outside(dim, case.dtype)}")
        if relation := broken(self.require, self.names_in(case)):
            raise ValueError(f"'{relation}' does not hold")
        if what := placement_flaw(self, case) or rows_flaw(self.batch_invariant, case):
            raise ValueError(what)
        self._require_planted(case)
        for place, what in self.flaws(case):
            where = self.args[int(place[1])].name if place[0] == "args" else str(place[0])
            raise ValueError(f"{where}: {what}")

    def _require_types(self, case: Case) -> None:
        if Combination.of(case) in self.combinations:
            return
        if case.dtype not in self.dtypes:
            raise ValueError(f"dtype {case.dtype} is not one of {', '.join(self.dtypes)}")
        if set(case.types) != set(self.variables[1:]):
            wanted = ", ".join(self.variables[1:]) or "no type variable other than dtype"
            raise ValueError(f"types gives {sorted(case.types)}, but a case must give {wanted}")
        chosen = ", ".join(f"{name} = {dtype}" for name, dtype in case.types.items())
        raise ValueError(f"no combination in types has dtype {case.dtype} with {chosen}")

    def _require_pads(self, case: Case) -> None:
        """Raise ValueError unless every stride is at least as long as what it steps over."""
        strided = {arg.name: arg for arg in self.args if arg.strided}
        if case.pad and not strided:
            raise ValueError("pad requires a task with strided arguments")
        for name, pads in case.pads.items():
            many = (pads,) if isinstance(pads, int) else pads
            if name not in strided or any(pad < 0 for pad in many):
                raise ValueError(
                    f"pads must be 0 or more, and only for strided arguments: {sorted(strided)}"
                )
            axes = strided[name].free_axes
            if not isinstance(pads, int) and len(pads) != len(axes):
                raise ValueError(
                    f"pads of {name}: give one for each of its {len(axes)} free strides"
                )

    def _require_legal_by_name(self, case: Case) -> None:
        """Raise ValueError unless what a case says of single arguments and scalars is legal."""
        free = {s.name: s for s in self.scalars if s.varies}
        if not set(case.scalars) <= set(free):
            raise ValueError(f"only these scalars may vary: {sorted(free)}")
        for name, value in case.scalars.items():
            if not free[name].allows(value):
                raise ValueError(f"{name} = {value:g} is outside its range")
        if not set(case.offsets) <= {arg.name for arg in self.args}:
            raise ValueError("offsets can be given only for arguments")
        if not set(case.families) <= (own := {a.name for a in self.args if a.has_families}):
            raise ValueError(f"families may name only these arguments: {sorted(own)}")
        finite = {arg.name for arg in self.args if arg.values == "finite"}
        for name, family in case.families.items():
            if name in finite and family in SPECIAL_FAMILIES:
                raise ValueError(
                    f"{name} has only finite values, so it cannot have the family {family}"
                )
        if not set(case.absent) <= (optional := {a.name for a in self.args if a.optional}):
            raise ValueError(f"only these arguments may be absent: {sorted(optional)}")

    def _require_planted(self, case: Case) -> None:
        """Raise ValueError unless planted numbers are legal in their arguments."""
        read = {arg.name: arg for arg in self.args if arg.read}
        for name, numbers in case.planted.items():
            if name not in read or not (is_float(read[name].dtype_of(case)) or read[name].index):
                some = sorted(n for n, a in read.items() if is_float(a.dtype_of(case)) or a.index)
                raise ValueError(
                    "numbers can be planted only in floats and indices that the kernel reads:"
                    f" {some}"
                )
            for number in numbers:
                if not self._may_hold(read[name], case, number):
                    raise ValueError(f"{name} = {number:g} is not a valid value")

    def _may_hold(self, arg: Arg, case: Case, number: float) -> bool:
        if arg.index is None:
            return arg.may_hold(number)
        low, high = arg.index.bounds(self.names_in(case))
        return low <= number < high and number.is_integer()

    def flaws(self, case: Case) -> Iterator[tuple[Place, str]]:
        """What the contract says that cannot be of a case with legal dims, and where it stands."""
        names = self.names_in(case)
        for field, text in (("flops", self.flops), ("least_bytes", self.stated_least_bytes)):
            if text is not None and (what := _number_flaw(text, names)):
                yield (field,), what
        for at, arg in enumerate(self.args):
            found = list(_shape_flaws(arg, names)) if arg.present(case) else []
            yield from ((("args", at, *place), what) for place, what in found)
            if arg.present(case) and not found:
                yield from ((("args", at, *p), w) for p, w in _layout_flaws(arg, case))
                yield from ((("args", at, "index", *p), w) for p, w in self._index_flaws(arg, case))

    def _index_flaws(self, arg: Arg, case: Case) -> Iterator[tuple[Place, str]]:
        """Bounds that are no numbers, too few for the kind, beyond the table or the dtype."""
        index, names = arg.index, self.names_in(case)
        if index is None:
            return
        for field, text in (("from", index.start), ("below", index.below)):
            if what := _number_flaw(text, names, negative=field == "from"):
                yield (field,), what
                return
        (low, high), shape = index.bounds(names), arg.shape_of(case)
        needed = {"permutation": shape[-1], "distinct": shape[-1], "slots": math.prod(shape)}
        least = needed.get(index.kind, 1 if math.prod(shape) and index.none is None else 0)
        if high - low < least:
            found = f"the range from {low} to below {high} has {high - low} numbers"
            yield ("below",), f"{found}, but the index needs {least}: {_at(names)}"
        limits = INTEGERS.get(arg.dtype_of(case), (0, 0))
        for field, value in (("from", low), ("below", high - 1), ("none", index.none)):
            if value is not None and not limits[0] <= value <= max(limits[1], low):
                yield (field,), f"{value} does not fit in {arg.dtype_of(case)}: {_at(names)}"
        if index.none is not None and low <= index.none < high:
            yield ("none",), f"{index.none} is also a valid index: {_at(names)}"
        table = next((a for a in self.args if a.name == index.table), None)
        if table and table.present(case):
            shape, axes = table.shape_of(case), index.table_axes
            lengths = index.kind == "lengths"
            extent = math.prod(shape[axes : axes + 1] if lengths else shape[:axes])
            if high > extent + lengths:
                where = "rows of " if lengths else ""
                what = (
                    f"the value {high - 1} is valid, but {table.name} has {where}{extent} entries"
                )
                yield ("below",), f"{what}: {_at(names)}"

    def require_small(self, case: Case) -> None:
        """Raise ValueError if its buffers take more than MAX_BYTES, paddings included: legal, but
        a model that asks for it would fill the machine's memory."""
        if not self.is_small(case):
            size = self.buffer_bytes(case)
            raise ValueError(
                f"{size:,} bytes are too many for a check: at most {MAX_BYTES:,} are allowed"
            )

    def is_small(self, case: Case) -> bool:
        """Whether the buffers of a case take at most MAX_BYTES, as `require_small` asks."""
        return self.buffer_bytes(case) <= MAX_BYTES

    def buffer_bytes(self, case: Case) -> int:
        """Bytes of its buffers, paddings included."""
        return sum(block.bytes for block in layout(self, case).blocks)

    def is_float32(self, case: Case) -> bool:
        """Whether all floats of a case are float32: no arithmetic below that is granted."""
        dtypes = {arg.dtype_of(case) for arg in self.args}
        return "float32" in dtypes and not any(is_float(d) for d in dtypes - {"float32"})

    def least_results(self, case: Case) -> int:
        """Elements of the smallest result whose errors are measured; MAX_BYTES where there is none:
        few results are no lack then."""
        written = (arg for arg in self.args if arg.written and arg.present(case))
        measured = (arg for arg in written if arg.judged_by(case) in MEASURED)
        return min((math.prod(arg.shape_of(case)) for arg in measured), default=MAX_BYTES)

    def least_bytes(self, case: Case) -> int:
        """Bytes that any kernel must move: each argument read once, each written once, unless the
        contract says otherwise."""
        if self.stated_least_bytes is not None:
            return evaluate(self.stated_least_bytes, self.names_in(case))
        return self._moved([arg.bytes_of(case) for arg in self.args])

    def _moved(self, sizes: Sequence[int]) -> int:
        """Bytes of arguments of these sizes, each read once and written once."""
        moved = zip(self.args, sizes, strict=True)
        return sum(size * (int(arg.read) + int(arg.written)) for arg, size in moved)

    def size_bytes(self, case: Case) -> int:
        """Bytes of its arguments, or what a call moves at least, if that is more."""
        sizes = [arg.bytes_of(case) for arg in self.args]
        if self.stated_least_bytes is not None:
            return max(sum(sizes), self.least_bytes(case))
        return max(sum(sizes), self._moved(sizes))

    def flops_of(self, case: Case) -> int:
        return evaluate(self.flops, self.names_in(case))


def _shape_flaws(arg: Arg, names: Mapping[str, int]) -> Iterator[tuple[Place, str]]:
    for axis, extent in enumerate(arg.shape):
        if what := _number_flaw(extent, names):
            yield ("shape", axis), what
    for axis, stride in enumerate(arg.strides or ()):
        if stride != "free" and (what := _number_flaw(stride, names)):
            yield ("strides", axis), what


def _layout_flaws(arg: Arg, case: Case) -> Iterator[tuple[Place, str]]:
    """Strides by which entries share memory, and sizes that no memory has."""
    (shape, strides), names = arg.layout_of(case), arg.names_in(case)
    if elements_spanned(shape, strides) * ITEM_BYTES[arg.dtype_of(case)] >= ADDRESSABLE:
        yield ("shape",), f"2^63 bytes or more: {_at(names)}"
    reach = 0
    for stride, extent, axis in sorted(
        (stride, extent, axis)
        for axis, (stride, extent) in enumerate(zip(strides, shape, strict=True))
        if extent > 1
    ):
        if stride <= reach:
            what = f"stride {stride} is smaller than the {reach + 1} elements that it must skip"
            yield ("strides", axis), f"{what}: {_at(names)}"
            return
        reach += (extent - 1) * stride


def _number_flaw(text: str, names: Mapping[str, int], *, negative: bool = False) -> str:
    """Why the expression has no value that an extent may have, or ""."""
    try:
        value = evaluate(text, names)
    except ZeroDivisionError:
        return f"'{text}' divides by zero: {_at(names)}"
    if value < 0 and not negative:
        return f"'{text}' is {value}, less than 0: {_at(names)}"
    return f"'{text}' is 2^63 or more: {_at(names)}" if abs(value) >= ADDRESSABLE else ""


def _at(names: Mapping[str, int]) -> str:
    return f"with {assignments(names)}"


def _outside(dim: Dim, dtype: DTypeName) -> str:
    if dim.values:
        return f"not one of {', '.join(map(str, dim.values))}"
    return f"outside {dim.min} to {dim.max} in steps of {dim.step(dtype)} for {dtype}"
