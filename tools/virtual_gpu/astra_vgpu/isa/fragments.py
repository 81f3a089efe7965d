"""wmma fragments as on an H200: which lane holds which element, and how they are loaded and stored.

PTX leaves both open. Read off the machine code that ptxas 13.0 makes for sm_90 for every shape,
type and layout. A fragment consists of tiles of eight lines by 16 bytes (32 for doubles), the
operands of the hardware's mma; lane l holds a piece of line l / 4 of each. Where memory runs along
the lines, a tile is one access of each lane. Where it runs across them, 16-bit tiles are loaded as
they are and transposed in registers; wider and narrower elements are loaded one by one. 8- and
16-bit operands come from shared memory by ldmatrix, two lines of tiles at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

_WARP = 32
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s8": 8, "u8": 8, "s32": 32, "f64": 64}
"""Formats of elements, and their widths; a tf32 is a float32 whose last 13 bits do not count."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_LINES = 8
"""Lines of a tile."""
_MATRIX_BYTES = 16
"""Bytes of a line that ldmatrix loads."""


@dataclass(frozen=True)
class Fragment:
    """A warp's part of a matrix."""

    format: str
    rows: int
    columns: int
    at: tuple[tuple[int, ...], ...]
    """[lane][element]: row * columns + column."""

    @property
    def elements(self) -> int:
        """Elements that one lane holds, copies included."""
        return len(self.at[0])

    @property
    def registers(self) -> int:
        return self.elements * BITS[self.format] // self.word_bits

    @property
    def word_bits(self) -> int:
        """Bits of a register."""
        return max(BITS[self.format], 32)

    @property
    def different(self) -> int:
        """Elements that one lane holds, without copies of earlier ones."""
        return self.rows * self.columns // _WARP


@dataclass(frozen=True)
class MatrixAccess:
    """One instruction of the machine."""

    size: int
    """Bytes of each lane."""
    at: tuple[tuple[int, int], ...]
    """Line of the matrix in memory, and the first element in it, for each lane; for fewer than 32
    lanes where the others take no part."""


@dataclass(frozen=True)
class Transfer:
    """A fragment's way from or to memory."""

    fragment: Fragment
    accesses: tuple[MatrixAccess, ...]
    """Accesses that carry the fragment, all of one size."""
    source: tuple[tuple[int, ...], ...]
    """[lane][element that is not a copy]: its place in what the accesses carry, element by
    element of each lane of each access."""
    turned: bool = False
    """Whether each access's tile is turned over in registers."""

    @property
    def size(self) -> int:
        return self.accesses[0].size

    @property
    def each(self) -> int:
        """Elements of one lane of an access."""
        return self.size * 8 // BITS[self.fragment.format]

    @property
    def target(self) -> tuple[int, ...]:
        """The inverse of `source`: lane * different + element, of each place."""
        places = [0] * (len(self.accesses) * _WARP * self.each)
        for lane, elements in enumerate(self.source):
            for element, place in enumerate(elements):
                places[place] = lane * self.fragment.different + element
        return tuple(places)


@dataclass(frozen=True)
class _Form:
    part: str
    rows: int
    columns: int
    bits: int
    by_column: bool
    """Whether lane l / 4 is a column of the matrix, not a row."""

    @property
    def each(self) -> int:
        """Neighbours that a lane holds."""
        return max(32 // self.bits, 1) if self.part in "ab" else 2

    @property
    def lines(self) -> int:
        return self.columns if self.by_column else self.rows

    @property
    def length(self) -> int:
        return self.rows if self.by_column else self.columns

    def tiles(self) -> Iterator[tuple[int, int]]:
        """First line and place of each, in the order of the registers."""
        within = range(0, self.length, 4 * self.each)
        if self.part == "b" and self.columns == 16:
            yield from ((line, place) for line in range(0, self.lines, _LINES) for place in within)
            return
        for pair in range(0, self.lines, 2 * _LINES):
            for place in within:
                last = min(pair + 2 * _LINES, self.lines)
                yield from ((line, place) for line in range(pair, last, _LINES))

    def element(self, line: int, place: int) -> tuple[int, int]:
        """Row and column of an element."""
        return (place, line) if self.by_column else (line, place)


def wmma_fragment(format_: str, part: str, rows: int, columns: int) -> Fragment:
    """part: a, b, c or d. An f16 input has 16 elements a lane whatever its shape: copies fill
    them."""
    form = _form(format_, part, rows, columns)
    own = tuple(
        tuple(
            row * columns + column
            for line, place in form.tiles()
            for j in range(form.each)
            for row, column in [form.element(line + lane // 4, place + lane % 4 * form.each + j)]
        )
        for lane in range(_WARP)
    )
    copies = 16 // len(own[0]) if format_ == "f16" and part in "ab" else 1
    return Fragment(format_, rows, columns, tuple(one * copies for one in own))


def transfer(fragment: Fragment, part: str, order: str, *, shared: bool) -> Transfer:
    """order: row or col, as the matrix lies in memory; shared: a load or store that names shared
    memory as its space."""
    form = _form(fragment.format, part, fragment.rows, fragment.columns)
    along, turned = (order == "col") == form.by_column, False
    if shared and part in "ab" and (form.bits == 16 or (form.bits == 8 and along)):
        size, parts = _MATRIX_BYTES, list(_by_matrix(form, along))
    elif along:
        size, parts = form.each * form.bits // 8, list(_along(form))
    elif form.bits == 16:
        size, parts = 4, list(_turned(form))
        turned = True
    else:
        size, parts = form.bits // 8, list(_single(form))
    each = size * 8 // form.bits
    accesses, numbers = [], dict[int, int]()
    for number, lanes in enumerate(parts):
        at = []
        for lane, (line, place) in enumerate(lanes):
            row, column = form.element(line, place)
            outer, inner = (row, column) if order == "row" else (column, row)
            at.append((outer, inner))
            for j in range(each):
                r, c = (outer, inner + j) if order == "row" else (inner + j, outer)
                numbers[r * fragment.columns + c] = (number * _WARP + lane) * each + j
        accesses.append(MatrixAccess(size, tuple(at)))
    source = tuple(tuple(numbers[e] for e in own[: fragment.different]) for own in fragment.at)
    return Transfer(fragment, tuple(accesses), source, turned)


@cache
def machine_accesses(modifiers: tuple[str, ...]) -> int:
    """Instructions that a wmma.load or wmma.store becomes, without those for addresses; 0 for what
    is none."""
    shape = next((match for m in modifiers if (match := _SHAPE.fullmatch(m))), None)
    part = next((m for m in modifiers if m in tuple("abcd")), None)
    if shape is None or part is None:
        return 0
    m, n, k = map(int, shape.groups())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(part, (m, n))
    fragment = wmma_fragment(next(m for m in modifiers if m in BITS), part, rows, columns)
    order = "col" if "col" in modifiers else "row"
    shared = bool({"shared", "shared::cta"}.intersection(modifiers))
    return len(transfer(fragment, part, order, shared=shared).accesses)


def _form(format_: str, part: str, rows: int, columns: int) -> _Form:
    """The product of m8n32 is computed as that of its transposed operands."""
    by_column = part == "b" or (part in "cd" and (rows, columns) == (8, 32))
    return _Form(part, rows, columns, BITS[format_], by_column)


_Lanes = list[tuple[int, int]]
"""Line and place of the first element, for each lane."""


def _along(form: _Form) -> Iterator[_Lanes]:
    for line, place in form.tiles():
        yield [(line + lane // 4, place + lane % 4 * form.each) for lane in range(_WARP)]


def _turned(form: _Form) -> Iterator[_Lanes]:
    for line, place in form.tiles():
        yield [(line + lane % 4 * form.each, place + lane // 4) for lane in range(_WARP)]


def _single(form: _Form) -> Iterator[_Lanes]:
    for lanes in _along(form):
        for j in range(form.each):
            yield [(line, place + j) for line, place in lanes]


def _by_matrix(form: _Form, along: bool) -> Iterator[_Lanes]:
    tiles = list(form.tiles())
    for pair in range(0, form.lines, 2 * _LINES):
        group = [tile for tile in tiles if pair <= tile[0] < pair + 2 * _LINES]
        yield [
            (line + i, place) if along else (line, place + i)
            for line, place in group
            for i in range(_LINES)
        ]
