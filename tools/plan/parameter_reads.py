"""Which bytes of its parameters a kernel reads, by its PTX: the others may hold anything.

Padding of a struct holds what the launcher's stack held, often rests of other functions' frames;
a kernel does not read it. PTX names a parameter in `ld.param` with a constant offset, or puts its
address into a register for such loads, as nvcc does with a `__grid_constant__` struct. Any other
use of the name or of the register counts as reading all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from astra_vgpu.ground.cubin import Cubin, CubinKernel

_NAME = re.compile(r"([\w$]+)_param_(\d+)\b")
_LOAD = re.compile(
    r"(?:@!?%[\w$]+\s+)?ld\.param(?:::entry)?((?:\.\w+)+)\s+[^\[\]]+,"
    r"\s*\[([\w$]+)_param_(\d+)(?:\+(\d+))?\]"
)
_TAKEN = re.compile(r"mov\.[bu]64\s+(%[\w$]+),\s*[\w$]+_param_\d+")
_BITS = re.compile(r"\.[a-z]+(\d+)(x2)?$")
Reads = dict[int, set[int]]
"""Bytes that are read of each parameter, by its number."""


def unread_parameters(
    ptx: str, cubin: Cubin, names: Iterable[str]
) -> dict[str, tuple[tuple[int, int], ...]]:
    """For each of these kernels, start and length of the runs of parameter bytes that it never
    reads.

    Offsets are those of the cubin's parameter bytes. A kernel that the PTX does not define is not
    among them.
    """
    known = [name for name in names if name in cubin.kernels]
    reads = {name: Reads() for name in known if f".entry {name}(" in ptx}
    for name in reads:
        for line in _lines_with(f"{name}_param_", ptx):
            for statement in line.split(";"):
                if not statement.lstrip().startswith(".param"):
                    _note(statement, reads, cubin, ptx)
    return {name: tuple(_unread(cubin.kernels[name], found)) for name, found in reads.items()}


def _lines_with(words: str, text: str) -> Iterator[str]:
    """The lines with these words. A file's PTX may be 100 MB, little of which is of one kernel."""
    at = text.find(words)
    while at >= 0:
        start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text[start:end]
        at = text.find(words, end)


def _note(statement: str, reads: dict[str, Reads], cubin: Cubin, ptx: str) -> None:
    load = _LOAD.fullmatch(statement.strip())
    for name, number in _NAME.findall(statement):
        kernel, index = cubin.kernels.get(name), int(number)
        if name not in reads or kernel is None or index >= len(kernel.parameters):
            continue
        size = kernel.parameters[index].bytes
        read: range | set[int] = range(size)
        if load and (width := _width(load[1])):
            start = int(load[4] or 0)
            read = range(start, min(start + width, size))
        elif taken := _TAKEN.fullmatch(statement.strip()):
            through = _through(taken[1], 0, statement.strip(), _body(name, ptx))
            read = range(size) if through is None else through & {*range(size)}
        reads[name].setdefault(index, set()).update(read)


def _body(name: str, ptx: str) -> list[str]:
    """The statements of a kernel."""
    start = ptx.index("{", ptx.index(")", ptx.index(f".entry {name}(")))
    return [one.strip() for one in re.split(r"[;\n]", ptx[start : ptx.find("\n}", start)])]


def _through(register: str, offset: int, made: str, body: Sequence[str]) -> set[int] | None:
    """Bytes of a parameter that are read through a register with the address of one of them, which
    the statement `made` puts there; None where the register is used for anything else."""
    word = re.escape(register) + r"(?![\w$])"
    loaded = re.compile(
        rf"(?:@!?%[\w$]+\s+)?ld\.param((?:\.\w+)+)\s+[^\[\]]+,\s*\[{word}(?:\+(-?\d+))?\]"
    )
    moved = re.compile(rf"(?:add\.[su]64|mov\.[bu]64)\s+(%[\w$]+),\s*{word}(?:,\s*(-?\d+))?")
    uses = [one for one in body if one != made and re.search(word, one)]
    once = [one for one in uses if len(re.findall(word, one)) == 1]
    loads = [load for one in once if (load := loaded.fullmatch(one)) and _width(load[1])]
    moves = [move for one in once if (move := moved.fullmatch(one))]
    if made not in body or len(loads) + len(moves) < len(uses):
        return None
    found = set[int]()
    for load in loads:
        start = offset + int(load[2] or 0)
        found |= {*range(start, start + _width(load[1]))}
    for move in moves:
        through = _through(move[1], offset + int(move[2] or 0), move[0], body)
        if through is None:
            return None
        found |= through
    return found


def _width(suffixes: str) -> int:
    """Bytes of ".v4.b32"; 0 where the type is not understood."""
    bits = _BITS.search(suffixes)
    if bits is None:
        return 0
    count = next((n for n in (2, 4, 8) if f".v{n}." in suffixes), 1)
    return count * int(bits[1]) * (2 if bits[2] else 1) // 8


def _unread(kernel: CubinKernel, reads: Reads) -> Iterator[tuple[int, int]]:
    for index, place in enumerate(kernel.parameters):
        read = reads.get(index, set())
        start = 0
        for at in range(place.bytes + 1):
            if at == place.bytes or at in read:
                if at > start:
                    yield place.offset + start, at - start
                start = at + 1
