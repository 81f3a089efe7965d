"""Several recordings of one case made into one plan: which parameter bytes are addresses.

The recordings differ in the stand-in addresses and in what the stack held before. An 8-byte word
that always lies as far past the same argument or variable is its address; a byte that always holds
what the stack held is undefined; what else differs depends on something that it must not.

A kernel may also get an address before an argument: SGLang's rotation takes that of the key less
the extent of the query's heads, and adds it again. It is that argument's, if it lies equally far
before it in all recordings: the stand-ins move independently, so to nothing else can it keep its
distance, and so near before one it lies in no other (`stand_ins`). Nothing is given away by that: a
kernel can subtract as well as a launcher, and what it reads and writes is checked where it does. A
memset, a copy or a tensor map is carried out by the driver as it stands: its addresses lie inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from astra_chat.tools.plan import report
from astra_chat.tools.plan.model import (
    BEFORE_BYTES,
    POINTER_BYTES,
    TENSOR_MAP_BYTES,
    Address,
    ArgumentAddress,
    CopyNode,
    Im2colTensorMap,
    KernelNode,
    MemsetNode,
    Node,
    PointerRelocation,
    Relocation,
    TensorMapRelocation,
    TiledTensorMap,
    VariableAddress,
)
from astra_chat.tools.plan.stand_ins import Addresses, Buffers
from astra_vgpu.ground.cubin import Cubin

EARLIER = (
    "differs between two calls with the same arguments: it depends on earlier calls, on the"
    " process and its floating-point state, or on the launcher's own stack"
)
ADDRESSES = (
    "depends on the addresses of the arguments, and not only on their alignment: a launch plan"
    " can hold only pointers into an argument or a variable, each in 8 bytes of its own"
)
Ranges = tuple[tuple[int, int], ...]
M = TypeVar("M", report.Kernel, report.Memset, report.Copy)
ROUNDED = (
    "depends on the host's rounding mode, which a caller may have changed; only the last bits of a"
    " floating-point parameter may depend on it"
)
COUNTS = 1 << 16
"""Below this the low half of a float64 may be an integer of its own."""


class Unrepeatable(Exception):
    """The recordings are not those of one plan; says in which way."""


@dataclass(frozen=True)
class Seen:
    """One recording of a case."""

    called: report.Called
    addresses: Addresses
    variables: Mapping[str, int]
    pattern: int
    """What undefined bytes hold."""


def relocate(
    seen: Sequence[Seen], buffers: Buffers, cubin: Cubin, unread: Mapping[str, Ranges]
) -> tuple[Node, ...]:
    """The nodes of the plan. At least two of the recordings have addresses of their own.

    `unread` names start and length of the parameter bytes that a kernel never reads. Raises
    Unrepeatable.
    """
    others = [seen[0]]
    for other in seen[1:]:
        if _same_addresses(other, seen[0]):
            _require_same(seen[0], other, cubin, unread)
        else:
            _require_shape(seen[0].called.nodes, other.called.nodes, ADDRESSES)
            others.append(other)
    return tuple(
        _node([s.called.nodes[i] for s in others], others, buffers, cubin, unread)
        for i in range(len(seen[0].called.nodes))
    )


def _same_addresses(one: Seen, other: Seen) -> bool:
    return (one.addresses, one.variables) == (other.addresses, other.variables)


def _require_shape(
    one: Sequence[report.AnyNode], other: Sequence[report.AnyNode], why: str
) -> None:
    """Raises Unrepeatable, which ends with `why`, unless both have the same nodes, parameters and
    addresses aside."""
    if len(one) != len(other):
        raise Unrepeatable(f"the number of launches {why}")
    hidden = {"parameters", "maps", "target", "source"}
    for index, (mine, its) in enumerate(zip(one, other, strict=True), start=1):
        first, second = mine.model_dump(exclude=hidden), its.model_dump(exclude=hidden)
        if first != second:
            fields = first.keys() | second.keys()
            name = min(n for n in fields if first.get(n) != second.get(n))
            raise Unrepeatable(f"launch {index}{_of(mine)}: its {name} {why}")


def _of(node: report.AnyNode) -> str:
    return f" ({node.kernel})" if isinstance(node, report.Kernel) else f" ({node.kind})"


def _require_same(one: Seen, other: Seen, cubin: Cubin, unread: Mapping[str, Ranges]) -> None:
    """With equal addresses nothing differs but undefined bytes."""
    _require_shape(one.called.nodes, other.called.nodes, EARLIER)
    for mine, its in zip(one.called.nodes, other.called.nodes, strict=True):
        if isinstance(mine, report.Kernel) and isinstance(its, report.Kernel):
            pair = (mine.parameters, its.parameters)
            free = _undefined(pair, (one.pattern, other.pattern), unread.get(mine.kernel, ()))
            differing = (i for i in _differing(pair) if i not in free)
            if (at := next(differing, None)) is not None:
                raise Unrepeatable(f"{parameter_name(cubin, mine.kernel, at)} {EARLIER}")
            if mine.maps != its.maps:
                raise Unrepeatable(f"a tensor map of {mine.kernel} {EARLIER}")
        elif mine != its:
            raise Unrepeatable(f"a {mine.kind} {EARLIER}")


def _differing(parameters: Sequence[bytes]) -> Iterable[int]:
    return (i for i, values in enumerate(zip(*parameters, strict=True)) if len(set(values)) > 1)


def _undefined(parameters: Sequence[bytes], patterns: Sequence[int], unread: Ranges) -> set[int]:
    """Bytes that contain stack contents in each recording, and those that no kernel reads."""
    expected = tuple(pattern & 0xFF for pattern in patterns)
    constant_bytes = {
        i for i, values in enumerate(zip(*parameters, strict=True)) if values == expected
    }
    return constant_bytes | bytes_of(unread)


def bytes_of(ranges: Iterable[tuple[int, int]]) -> set[int]:
    """Returns the places of all bytes in ranges of a start and a length."""
    return {i for start, length in ranges for i in range(start, start + length)}


def parameter_name(cubin: Cubin, kernel: str, at: int) -> str:
    """ "parameter 2 of kernel K", by an offset in the parameter bytes."""
    places = cubin.kernels[kernel].parameters
    number = next((i for i, p in enumerate(places) if p.offset <= at < p.offset + p.bytes), None)
    name = f"parameter {number + 1}" if number is not None else f"parameter byte {at}"
    return f"{name} of kernel {kernel}"


def _node(
    nodes: Sequence[report.AnyNode],
    seen: Sequence[Seen],
    buffers: Buffers,
    cubin: Cubin,
    unread: Mapping[str, Ranges],
) -> Node:
    places = _Places(seen, buffers, cubin)
    match nodes[0]:
        case report.Kernel():
            kernels = _all(report.Kernel, nodes)
            return _kernel(kernels, places, cubin, unread.get(nodes[0].kernel, ()))
        case report.Memset() as fill:
            targets = [node.target for node in _all(report.Memset, nodes)]
            return MemsetNode(
                target=places.required(targets, "the target of a memset"),
                value=fill.value,
                width_bytes=fill.width_bytes,
                height=fill.height,
                pitch_bytes=fill.pitch_bytes,
            )
        case report.Copy() as copy:
            copies = _all(report.Copy, nodes)
            return CopyNode(
                target=places.required([c.target for c in copies], "the target of a copy"),
                source=places.required([c.source for c in copies], "the source of a copy"),
                width_bytes=copy.width_bytes,
                height=copy.height,
                target_pitch_bytes=copy.target_pitch_bytes,
                source_pitch_bytes=copy.source_pitch_bytes,
            )


def _all(kind: type[M], nodes: Sequence[report.AnyNode]) -> list[M]:
    return [node for node in nodes if isinstance(node, kind)]


def _kernel(
    nodes: Sequence[report.Kernel], places: _Places, cubin: Cubin, unread: Ranges
) -> KernelNode:
    first = nodes[0]
    size = len(first.parameters)
    relocations: list[Relocation] = _maps(nodes, places)
    covered = {i for r in relocations for i in range(r.at, r.at + TENSOR_MAP_BYTES)}
    every = [n.parameters for n in nodes]
    free = _undefined(every, places.patterns, unread) - covered
    # Padding may hold the rest of a pointer: what is read must differ too.
    differing = set(_differing(every)) - bytes_of(unread)
    for at in range(0, size - POINTER_BYTES + 1, POINTER_BYTES):
        word = range(at, at + POINTER_BYTES)
        if at in covered or all(i in free for i in word) or differing.isdisjoint(word):
            continue
        values = [int.from_bytes(n.parameters[at : at + POINTER_BYTES], "little") for n in nodes]
        if _in_one(cubin, first.kernel, word) and (to := places.find(values, BEFORE_BYTES)):
            relocations.append(PointerRelocation(at=at, to=to))
            covered.update(word)
    free -= covered
    known = free | covered
    bad = [i for i in _differing(every) if i not in known]
    if bad:
        raise Unrepeatable(f"{parameter_name(cubin, first.kernel, bad[0])} {ADDRESSES}")
    return KernelNode(
        **first.model_dump(exclude={"kind", "parameters", "maps"}),
        parameters=bytes(0 if i in known else b for i, b in enumerate(first.parameters)),
        relocations=tuple(sorted(relocations, key=lambda r: r.at)),
        undefined=_runs(sorted(free)),
    )


def _in_one(cubin: Cubin, kernel: str, word: range) -> bool:
    """Whether these bytes belong to a single parameter."""
    return any(
        p.offset <= word.start and word.stop <= p.offset + p.bytes
        for p in cubin.kernels[kernel].parameters
    )


def _maps(nodes: Sequence[report.Kernel], places: _Places) -> list[Relocation]:
    first = nodes[0]
    relocations: list[Relocation] = []
    for index, held in enumerate(first.maps):
        maps = [node.maps[index] for node in nodes if len(node.maps) == len(first.maps)]
        same = {(m.at, m.map.model_copy(update={"address": 0})) for m in maps}
        if len(maps) != len(nodes) or len(same) != 1:
            raise Unrepeatable(f"a tensor map of {first.kernel} {ADDRESSES}")
        address = places.required([m.map.address for m in maps], "the address of a tensor map")
        fields = held.map.model_dump(exclude={"address"}) | {"address": address}
        kind = TiledTensorMap if isinstance(held.map, report.TiledMap) else Im2colTensorMap
        relocations.append(TensorMapRelocation(at=held.at, map=kind.model_validate(fields)))
    return relocations


def _runs(indices: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Start and length of each run of successive numbers."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and sum(runs[-1]) == index:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((index, 1))
    return tuple(runs)


class _Places:
    """What an address of each recording may lie in."""

    def __init__(self, seen: Sequence[Seen], buffers: Buffers, cubin: Cubin) -> None:
        self.patterns = [s.pattern for s in seen]
        self._bases: list[tuple[type[ArgumentAddress | VariableAddress], str, int, list[int]]] = [
            (ArgumentAddress, a.name, a.bytes, [s.addresses.arguments[a.name] for s in seen])
            for a in buffers.arguments
            if a.buffer is not None
        ]
        self._bases += [
            (VariableAddress, v.name, v.bytes, [s.variables[v.name] for s in seen])
            for v in cubin.variables.values()
        ]

    def find(self, values: Sequence[int], before: int = 0) -> Address | None:
        """The one place that all of these addresses are as far into; one past its end counts, if
        there is no other, and then an argument that begins up to `before` bytes further on."""
        candidates: list[tuple[tuple[bool, bool, int], Address]] = []
        for kind, name, size, bases in self._bases:
            offsets = {value - base for value, base in zip(values, bases, strict=True)}
            least = -before if kind is ArgumentAddress else 0
            if len(offsets) == 1 and least <= (offset := offsets.pop()) <= size:
                order = (offset < 0, offset == size, abs(offset))
                candidates.append((order, kind(name=name, offset=offset)))
        return min(candidates, key=lambda item: item[0])[1] if candidates else None

    def required(self, values: Sequence[int], what: str) -> Address:
        """Returns the place that `find` finds. Raises Unrepeatable where there is none."""
        address = self.find(values)
        if address is None:
            raise Unrepeatable(f"{what} {ADDRESSES}")
        return address


@dataclass(frozen=True)
class _Format:
    """A floating-point number among parameter bytes, compared as the integer of the same bytes."""

    size: int
    least: int
    """A smaller integer is a count, which rounding may not change. Of 32 and 64 bits the least
    normal number; of 16 bits more, 0.008 of float16: halves of counts lie below."""
    steps: int
    """Largest difference of the integers by which a chain of host operations may move a number."""


_FORMATS = {
    4: _Format(4, 1 << 23, 64),
    8: _Format(8, 1 << 52, 64),
    2: _Format(2, 1 << 13, 2),
}
"""Formats by size in bytes, in the order in which they are tried: float32, float64, bfloat16 and
float16."""


def require_rounded(
    plan: Iterable[Node], usual: Seen, rounded: Seen, cubin: Cubin, unread: Mapping[str, Ranges]
) -> None:
    """Require that a launcher launches the same where floating-point operations round otherwise.

    It may compute a number for its kernel, such as 1 / d: then that parameter differs in its last
    bits, and nothing else does. Both recordings were made with the same addresses and the same
    stack. Raises Unrepeatable where they differ in more.
    """
    mine, its = usual.called.nodes, rounded.called.nodes
    if len(mine) != len(its):
        raise Unrepeatable(f"the number of launches {ROUNDED}")
    for number, (one, other, node) in enumerate(zip(mine, its, plan, strict=True), start=1):
        if not isinstance(one, report.Kernel) or not isinstance(other, report.Kernel):
            same = one == other
        else:
            same = one.model_copy(update={"parameters": other.parameters}) == other
        if not same:
            raise Unrepeatable(f"launch {number} {ROUNDED}")
        if isinstance(one, report.Kernel) and isinstance(other, report.Kernel):
            assert isinstance(node, KernelNode)
            free = bytes_of((*node.undefined, *unread.get(node.kernel, ())))
            sizes = {p.offset: p.bytes for p in cubin.kernels[node.kernel].parameters}
            at = _not_rounded(one.parameters, other.parameters, free, sizes)
            if at is not None:
                raise Unrepeatable(f"{parameter_name(cubin, node.kernel, at)} {ROUNDED}")


def _not_rounded(mine: bytes, its: bytes, free: set[int], sizes: Mapping[int, int]) -> int | None:
    """The first byte that differs by more than rounding; None: there is none. `sizes`: bytes of the
    parameters, by where they begin."""
    done = 0
    for at, (one, other) in enumerate(zip(mine, its, strict=True)):
        if at < done or one == other or at in free:
            continue
        number = next((n for n in _numbers(at, sizes) if _is_near(mine, its, *n)), None)
        if number is None:
            return at
        done = number[0] + number[1].size
    return None


def _numbers(at: int, sizes: Mapping[int, int]) -> Iterable[tuple[int, _Format]]:
    """The numbers that this byte may belong to: a parameter of 2 or 4 bytes itself; a larger one
    may be a struct of several."""
    start = max((begin for begin in sizes if begin <= at), default=0)
    size = sizes.get(start, 0)
    if size in (2, 4) and at < start + size:
        yield start, _FORMATS[size]
        return
    for number in _FORMATS.values():
        yield at // number.size * number.size, number


def _is_near(mine: bytes, its: bytes, start: int, number: _Format) -> bool:
    """Whether both are normal numbers of the same sign, a few steps apart. A count before a float32
    is no part of a float64."""
    end = start + number.size
    if end > len(mine):
        return False
    one, other = (int.from_bytes(p[start:end], "little", signed=True) for p in (mine, its))
    magnitude, low = (1 << 8 * number.size - 1) - 1, 0xFFFF_FFFF
    if number.size == 8 and min(one & low, other & low) < COUNTS:
        return False
    least = min(one & magnitude, other & magnitude)
    near = least >= number.least and abs(one - other) <= number.steps
    return bool((one < 0) == (other < 0) and near)
