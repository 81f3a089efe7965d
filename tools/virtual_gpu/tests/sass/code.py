"""Machine code written by hand, for tests."""

from __future__ import annotations

from astra_vgpu.sass.disassembly import MachineInstruction, MachineKernel


def instruction(
    text: str,
    line: int = 0,
    *,
    stall: int = 1,
    result: int = 7,
    operands: int = 7,
    waits: tuple[int, ...] = (),
) -> MachineInstruction:
    guard = ""
    if text.startswith("@"):
        guard, text = text.split(None, 1)
    opcode, _, rest = text.partition(" ")
    return MachineInstruction(opcode, rest, guard, line, stall, result, operands, waits)


def kernel(*items: str | MachineInstruction) -> MachineKernel:
    """Instructions, and labels, which end with a colon."""
    code: list[MachineInstruction] = []
    labels: dict[str, int] = {}
    for item in items:
        if isinstance(item, str) and item.endswith(":"):
            labels[item[:-1]] = len(code)
        else:
            code.append(instruction(item) if isinstance(item, str) else item)
    return MachineKernel(tuple(code), labels)
