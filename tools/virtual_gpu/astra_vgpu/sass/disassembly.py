"""nvdisasm's text of a cubin: instructions with their control bits and PTX lines.

Since Volta each instruction has 128 bits. The scheduling information starts at bit 105 (Jia et al.,
arXiv:1804.06826): 4 bits of stall cycles, 1 of yield, 3 each for the scoreboards that its result
and its operand reads release (7: none), 6 for the scoreboards that it waits for.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_tool

SUFFIX = ".sass"
"""Suffix of the file with the text, which lies beside the PTX of the same nvcc call."""
OPTIONS = ("-c", "-gi", "-gp", "-hex")
"""Code only, with lines of the source and of the PTX (nvcc -lineinfo), and encodings."""
TIMEOUT_S = 60.0
MAX_INSTRUCTIONS = 50_000
"""Most instructions of a kernel that is looked at: working one out takes some 10 us for each."""
SCOREBOARDS = 6
_CONTROL_BIT = 105 - 64
"""First bit of the control bits in the upper half of an instruction."""

_SECTION = re.compile(r"^\.text\.(\S+):$", re.MULTILINE)
_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt", line (\d+)')
_LOWER = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s+/\* 0x([0-9a-f]{16}) \*/")
_UPPER = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/")
_LABEL = re.compile(r"^([^\s/]\S*):$")


@dataclass(frozen=True)
class MachineInstruction:
    opcode: str
    """Opcode with its modifiers: LDG.E.128."""
    operands: str
    guard: str
    """@P0, @!UP1, or nothing."""
    line: int
    """Line of the PTX that it came from; 0: unknown."""
    stall: int
    """Cycles until the warp's next instruction may go."""
    result_board: int
    """The scoreboard that is free once the result is there; SCOREBOARDS or more: none."""
    operand_board: int
    """The scoreboard that is free once its operands were read; SCOREBOARDS or more: none."""
    waits: tuple[int, ...]
    """Scoreboards that must be free before it goes."""

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]


@dataclass(frozen=True)
class MachineKernel:
    """The code of one kernel, with the functions that it calls behind it."""

    instructions: tuple[MachineInstruction, ...]
    labels: Mapping[str, int]
    """Number of the instruction behind each label, by label."""


class Disassembly:
    """The text of a file's kernels; each is read when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def kernel(self, name: str) -> MachineKernel:
        """Raises KeyError for a kernel that the text does not have, OSError and ValueError where
        there is none or it is none of nvdisasm's."""
        return parse_kernel(self._sections[name])

    @cached_property
    def _sections(self) -> dict[str, str]:
        _, *parts = _SECTION.split(self._path.read_text())
        return dict(zip(parts[::2], parts[1::2], strict=True))


def disassemble(cubin: Path, text: Path) -> bool:
    """Writes nvdisasm's text of a cubin; False, and nothing is left, where that cannot be."""
    try:
        command = [str(find_tool("nvdisasm")), *OPTIONS, str(cubin)]
        done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
        if not done.returncode:
            text.write_bytes(done.stdout)
            return True
    except (MissingDependency, subprocess.TimeoutExpired):
        pass
    except OSError:  # a full disk, for one
        with contextlib.suppress(OSError):
            text.unlink(missing_ok=True)
    return False


def parse_kernel(section: str) -> MachineKernel:
    """One kernel's part of the text. Raises ValueError for half an instruction, and
    for a kernel of more than MAX_INSTRUCTIONS."""
    instructions: list[MachineInstruction] = []
    labels: dict[str, int] = {}
    line, instruction_text = 0, ""
    for text in section.splitlines():
        if match := _LOWER.match(text):
            if instruction_text:
                raise ValueError(f"half an instruction: {instruction_text}")
            instruction_text = match[1]
        elif match := _UPPER.match(text):
            if not instruction_text:
                raise ValueError(f"half an instruction: {text.strip()}")
            instructions.append(_instruction(instruction_text, line, int(match[1], 16)))
            instruction_text = ""
        elif match := _LINE.match(text):
            line = int(match[1])
        elif match := _LABEL.match(text):
            labels[match[1]] = len(instructions)
        if len(instructions) > MAX_INSTRUCTIONS:
            raise ValueError(f"more than {MAX_INSTRUCTIONS} instructions")
    return MachineKernel(tuple(instructions), labels)


def _instruction(words: str, line: int, upper: int) -> MachineInstruction:
    guard = ""
    if words.startswith("@"):
        guard, words = words.split(None, 1)
    opcode, _, operands = words.partition(" ")
    control = upper >> _CONTROL_BIT
    waits = tuple(board for board in range(SCOREBOARDS) if control >> 11 + board & 1)
    return MachineInstruction(
        opcode,
        operands.strip(),
        guard,
        line,
        stall=control & 15,
        result_board=control >> 5 & 7,
        operand_board=control >> 8 & 7,
        waits=waits,
    )
