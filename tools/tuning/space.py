"""The tuning space of a kernel: constants that its source leaves open, each with its values.

    constexpr int kThreads = 256;  // tune: 64 128 256 512
    #define ROWS 4                 // tune: 1 2 4 8
    // require: kThreads * ROWS <= 1024

    BLOCK = 1024  # tune: 512 1024 2048
    # require: BLOCK * WARPS <= 8192

The second is the form of a Triton file, for names of its launcher and for tl.constexpr(...); its
@triton.autotune stands for such a mark (triton/autotune.py). The
source stays a file that compiles: what stands there is the starting point. A relation is an
expression as in task.toml.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from astra_chat.tools.language import COMMENTS, Language, is_extension, language_of
from astra_chat.tools.task.expressions import parse_relation
from astra_chat.tools.task.relations import broken
from astra_chat.tools.triton.autotune import without_autotune
from astra_chat.tools.triton.expressions import NotAllowed
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import BadInput

MAX_PARAMETERS, MAX_VALUES, MAX_COMBINATIONS = 8, 64, 100_000
_MACRO = re.compile(r"^\s*#\s*define\s+([A-Za-z_]\w*)\s+\(?(-?\d[\d']*)")
_VARIABLE = re.compile(r"([A-Za-z_]\w*)\s*=\s*(-?\d[\d']*)[uUlL]*\s*;")
_PYTHON = re.compile(r"^\s*([A-Za-z_]\w*)\s*=\s*(?:tl\.constexpr\(\s*)?(-?\d[\d_]*)\s*\)?\s*$")
FORM = "write 'constexpr int NAME = 256;  // tune: 64 128 256' or '#define NAME 4  // tune: 1 2 4'"
TRITON_FORM = "write 'NAME = 256  # tune: 64 128 256' in the launcher or above the kernels"
Point = Mapping[str, int]
"""A value for each parameter."""


@dataclass(frozen=True)
class TuningParameter:
    """A constant that may take one of several values."""

    name: str
    values: tuple[int, ...]
    """Values in the order in which they are written, what the source holds among them."""
    first: int
    """Value that the source holds."""
    start: int
    end: int
    """Where it stands in the source."""
    mark: tuple[int, int] | None = None
    """Where the values of its mark stand, of a mark that leaves out what the source holds."""


@dataclass(frozen=True)
class Space:
    """All that a source leaves open."""

    source: str
    parameters: tuple[TuningParameter, ...]
    relations: tuple[str, ...] = ()

    @property
    def combinations(self) -> int:
        """Number of combinations of values, whether or not they meet the relations."""
        return math.prod(len(one.values) for one in self.parameters)

    @property
    def first(self) -> Point:
        """The starting point."""
        return {one.name: one.first for one in self.parameters}

    def points(self) -> Iterator[Point]:
        """Yields all points that meet the relations, the starting point first."""
        yield self.first
        names = [one.name for one in self.parameters]
        for values in product(*(one.values for one in self.parameters)):
            point = dict(zip(names, values, strict=True))
            if point != self.first and not broken(self.relations, point):
                yield point

    def drawn(self, most: int, draws: random.Random) -> list[Point]:
        """The points, or a sample of so many with the starting point among them."""
        first, *others = self.points()
        if len(others) >= most:
            kept = sorted(draws.sample(range(len(others)), most - 1))
            others = [others[place] for place in kept]
        return [first, *others]

    def at(self, point: Point) -> str:
        """The source with these values. A mark that names the other values only has the value that
        the source held before in the place of the chosen one, so that none is lost."""
        text = self.source
        for one in sorted(self.parameters, key=lambda one: -one.start):
            value = point[one.name]
            if one.mark is not None and value != one.first:
                start, end = one.mark
                others = sorted({*one.values} - {value})
                text = f"{text[:start]} {' '.join(map(str, others))}{text[end:]}"
            text = text[: one.start] + str(value) + text[one.end :]
        return text


def read_space(source: str, given: Mapping[str, Sequence[int]] = {}) -> Space:
    """The space of a source; `given` names further constants with their values, or other values
    for marked ones. Raises BadInput that names the line, and for a torch extension."""
    if is_extension(source):
        raise BadInput("a torch extension's constants are not tuned: leave out the `tune:` marks")
    source = _plain(source)
    parameters, relations = dict[str, TuningParameter](), list[str]()
    wanted, offset, language = dict(given), 0, language_of(source)
    sign, form = COMMENTS[language], TRITON_FORM if language == "triton" else FORM
    for number, line in enumerate(source.splitlines(keepends=True), 1):
        if relation := re.search(rf"{sign}\s*require:(.*)$", line.rstrip()):
            relations.append(_relation(relation[1].strip(), number))
        mark = re.search(rf"{sign}\s*tune:(?P<values>.*)$", line.rstrip())
        constant = _constant(line.partition(sign)[0], language)
        if mark and constant is None:
            raise BadInput(f"line {number}: there is no integer constant before 'tune:'; {form}")
        if constant is not None and (mark or constant[0] in wanted):
            name, start, end = constant
            if name in parameters:
                raise BadInput(f"line {number}: {name} already has values on an earlier line")
            named = wanted.pop(name, None)
            values = named or _values(mark["values"] if mark else "", number, form)
            first = int(line[start:end].replace("'", ""))
            at = (offset + start, offset + end)
            where = None
            if mark and not named and first not in values:
                where = (offset + mark.start("values"), offset + mark.end("values"))
            known = tuple(dict.fromkeys([*values, first]))
            parameters[name] = TuningParameter(name, known, first, *at, where)
        offset += len(line)
    if wanted:
        raise BadInput(f"no constant {next(iter(wanted))} in the kernel: {form}")
    space = Space(source, tuple(parameters.values()), tuple(relations))
    _require_sound(space, form)
    return space


def _plain(source: str) -> str:
    """The source with a marked constant in the place of each @triton.autotune. Raises BadInput."""
    if language_of(source) != "triton":
        return source
    try:
        return without_autotune(source)
    except NotAllowed as error:
        raise BadInput(f"line {error.line}: {error}") from None
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise BadInput(f"line {line}: it is not valid Python: {error}") from None


def _constant(code: str, language: Language) -> tuple[str, int, int] | None:
    """Name of the constant that a line defines, and where its integer stands."""
    if language == "triton":
        found = _PYTHON.match(code)
    else:
        found = _MACRO.search(code) or _VARIABLE.search(code)
    return (found[1], *found.span(2)) if found else None


def _values(text: str, line: int, form: str) -> list[int]:
    try:
        values = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise BadInput(f"line {line}: '{text.strip()}' are not integers; {form}") from None
    if not values:
        raise BadInput(f"line {line}: no values after 'tune:'; {form}")
    return values


def _relation(text: str, line: int) -> str:
    try:
        parse_relation(text)
    except ValueError as error:
        raise BadInput(f"line {line}: {error}") from None
    return text


def _require_sound(space: Space, form: str) -> None:
    names = {one.name for one in space.parameters}
    if not names:
        raise BadInput(
            f"the kernel marks no constant for tuning: {form}, or give --param NAME=1,2,4"
        )
    if len(names) > MAX_PARAMETERS or space.combinations > MAX_COMBINATIONS:
        raise BadInput(
            f"{counted(len(names), 'constant')} with"
            f" {counted(space.combinations, 'combination')}: at most {MAX_PARAMETERS} constants"
            f" and {MAX_COMBINATIONS:,} combinations are allowed"
        )
    for one in space.parameters:
        if len(one.values) > MAX_VALUES:
            raise BadInput(
                f"{one.name} has {len(one.values)} values; at most {MAX_VALUES} are allowed"
            )
    for relation in space.relations:
        if unknown := sorted(parse_relation(relation).names - names):
            raise BadInput(
                f"'{relation}' uses {unknown[0]}, which is not one of the constants to tune"
            )
    if relation := broken(space.relations, space.first):
        raise BadInput(f"the kernel's current values do not satisfy '{relation}'")
