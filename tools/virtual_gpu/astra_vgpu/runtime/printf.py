"""Device printf: what kernels print, formatted as C does.

Arguments are laid out one after the other, as vprintf gets them (CUDA C++ Programming Guide,
"Formatted Output"): integers of 4 or 8 bytes, floats as doubles, each at a multiple of its size.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.types import Print

_SPEC = re.compile(r"%(%|([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|j|z|t|L)?([a-zA-Z]))")
_LONG = frozenset({"l", "ll", "j", "z", "t"})


def text_of(prints: Iterable[Print], memory: Memory) -> str:
    """Everything that a launch printed, block by block."""
    return "".join(_formatted(p, memory) for p in sorted(prints, key=lambda p: p.block))


def _formatted(printed: Print, memory: Memory) -> str:
    arguments = _Arguments(printed.arguments, memory)
    return _SPEC.sub(arguments.one, _string(memory, printed.format))


class _Arguments:
    def __init__(self, data: bytes, memory: Memory) -> None:
        self._data, self._memory, self._at = data, memory, 0

    def one(self, spec: re.Match[str]) -> str:
        """A conversion with its argument; one that is none stays as it is."""
        if spec[1] == "%":
            return "%"
        flags, kind = spec[2], spec[6]
        try:
            width = str(self._next("i")) if spec[3] == "*" else spec[3] or ""
            precise = "." in spec[0]
            digits = str(self._next("i")) if spec[4] == "*" else spec[4] or "0"
            how = f"%{flags}{width}{'.' + digits if precise else ''}"
            return self._value(how, kind, wide=spec[5] in _LONG)
        except (struct.error, KeyError):
            return spec[0]

    def _value(self, how: str, kind: str, *, wide: bool) -> str:
        if kind in "di":
            return f"{how}d" % self._next("q" if wide else "i")
        if kind in "ouxX":
            return f"{how}{kind.replace('u', 'd')}" % self._next("Q" if wide else "I")
        if kind in "fFeEgG":
            return f"{how}{kind}" % self._next("d")
        plain: dict[str, Callable[[], str]] = {
            "a": lambda: float(self._next("d")).hex(),
            "c": lambda: chr(int(self._next("i")) & 0xFF),
            "s": lambda: _string(self._memory, int(self._next("Q"))),
            "p": lambda: f"0x{int(self._next('Q')):x}",
        }
        return f"{how}s" % plain[kind.replace("A", "a")]()

    def _next(self, form: str) -> int | float:
        size = struct.calcsize(form)
        self._at = -(-self._at // size) * size
        (value,) = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += size
        return value  # type: ignore[no-any-return]


def _string(memory: Memory, address: int) -> str:
    """A C string in global memory."""
    buffer = memory.find(address)
    if buffer is None:
        return "(null)"
    data = buffer.data[address - buffer.address :].tobytes()
    return data.partition(b"\0")[0].decode(errors="replace")
