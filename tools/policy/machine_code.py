"""Reads which special registers a candidate's machine code reads, and whose source lines do.

Source: nvdisasm's text of the cubin with inlined line information. Before an instruction it names
the file and line that it comes from, then the call that this was inlined at, and so on up to the
kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from astra_chat.tools.policy.ptx_audit import SOURCE

PLACES_IN_GRID = re.compile(
    r"SRZ|SR_(?:(?:TID|CTAID|NTID|NCTAID)(?:\.[XYZ])?|LANEID|(?:EQ|LT|LE|GT|GE)MASK|SMEMSZ"
    r"|(?:Cga|CGA|CLUSTER)\w*(?:\.[XYZ])?|[SL]WIN(?:LO|HI))"
)
"""Where a thread is in its warp, block, cluster and grid, how much shared memory it has, and where
that and local memory begin among generic addresses."""
TIMER = re.compile(r"SR_GLOBALTIMER\w*")
PTX_NAMES = (
    ("SR_CLOCK", "%clock"),
    ("SR_GLOBALTIMER", "%globaltimer"),
    ("SR_VIRTUALSMID", "%smid"),
    ("SR_SMID", "%smid"),
    ("SR_VIRTID", "%warpid"),
    ("SR_VIRTCFG", "%nwarpid"),
    ("SR_PM", "%pm"),
)
"""Beginning of a name in machine code, and the PTX register or registers that it is."""
PTX_FILE = ".nv_debug_ptx_txt"
_ROW = re.compile(
    r'\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)'
    r'(?: inlined at "(?P<caller>[^"]*)", line (?P<at>\d+))?'
)
_READ = re.compile(
    r"^\s+/\*[0-9a-f]{4,}\*/\s+(?=[^;]*(?:\bC?S2U?R\b|\bSR_))[^;]*?(?P<register>[^\s,;]+)\s*;"
)


@dataclass(frozen=True)
class Frame:
    """A line of source, or the line of a call that was inlined."""

    file: str
    line: int


@dataclass(frozen=True)
class Read:
    """An instruction that reads a special register."""

    register: str
    """Name of the register as nvdisasm spells it: SR_TID.X."""
    frames: tuple[Frame, ...]
    """Lines that the instruction comes from, innermost first; empty where the text does not say."""


def refused_registers(lines: Iterable[str], *, timer: bool) -> list[tuple[str, int]]:
    """Special registers that a candidate may not read, and a line of its source for each; 1 where
    none is named.

    `lines`: nvdisasm's text. `timer`: whether the PTX that the code is made of reads the timer for
    no more than pauses (register_flow.py). Lines and files decide nothing: they are only told.
    """
    found: dict[str, int] = {}
    for read in special_registers(lines):
        if PLACES_IN_GRID.fullmatch(read.register):
            continue
        if timer and TIMER.fullmatch(read.register):
            continue
        own = (f.line for f in read.frames if f.file.rpartition("/")[2] == SOURCE)
        found.setdefault(_named(read.register), next(own, 1))
    return list(found.items())


def special_registers(lines: Iterable[str]) -> Iterator[Read]:
    """Every instruction that reads a special register, in the order of the text.

    A place holds until the next one is named, from one function to the next as well.
    """
    rows: list[re.Match[str]] = []
    complete = False
    for line in lines:
        if row := _ROW.match(line):
            if row["file"] != PTX_FILE:
                rows = [row] if complete else [*rows, row]
                complete = False
        else:
            complete = True
            if read := _READ.match(line):
                yield Read(read["register"], _frames(rows))


def _frames(rows: list[re.Match[str]]) -> tuple[Frame, ...]:
    """Frames from the last row up to the innermost line: each row says at what the next one
    stands."""
    frames: list[Frame] = []
    for row in reversed(rows):
        caller = Frame(row["caller"], int(row["at"])) if row["caller"] else None
        if frames and caller != frames[0]:
            break
        frames.insert(0, Frame(row["file"], int(row["line"])))
    return tuple(frames)


def _named(register: str) -> str:
    known = (ptx for start, ptx in PTX_NAMES if register.startswith(start))
    name = next(known, "")
    return f"{name} ({register})" if name else f"the special register {register}"
