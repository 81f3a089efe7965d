"""Ranges of constant operands, where ptxas 13.0 does not accept every number."""

from __future__ import annotations

from astra_vgpu.ptx.syntax import Immediate, Instruction

_BARRIERS = 16
_WARP = 32
_BULK_UNIT = 16
_MAX_BULK_BYTES = 1_048_560


def out_of_range(instruction: Instruction) -> str:
    """What is wrong with the constants; empty where nothing is."""
    numbers = [
        o.value if isinstance(o, Immediate) and o.kind == "int" else None
        for o in instruction.operands
    ]
    match instruction.family:
        case "bfe":
            return _within(numbers[2:], 255)
        case "bfi":
            return _within(numbers[3:], 255)
        case "lop3":
            return _within(numbers[4:5], 255)
        case "bar" | "barrier" if "warp" not in instruction.modifiers:
            return _barrier(instruction, numbers)
        case "pmevent":
            return _within(numbers[:1], 15)
        case "cp":
            return _copy(instruction, numbers)
        case "mbarrier":
            return _mbarrier(instruction, numbers)
        case _:
            return ""


def _within(numbers: list[int | None], most: int) -> str:
    wrong = [n for n in numbers if n is not None and not 0 <= n <= most]
    return f"the number {wrong[0]}, beyond {most}," if wrong else ""


def _barrier(instruction: Instruction, numbers: list[int | None]) -> str:
    if "red" in instruction.modifiers:
        numbers = numbers[1:-1]
    threads = numbers[1] if len(numbers) > 1 else None
    if threads is not None and (threads % _WARP or threads < 0):
        return f"{threads} threads at a barrier"
    if threads == 0 and "arrive" in instruction.modifiers:
        return "no threads at a barrier"
    return _within(numbers[:1], _BARRIERS - 1)


def _copy(instruction: Instruction, numbers: list[int | None]) -> str:
    if "bulk" in instruction.modifiers or instruction.opcode.startswith("cp.reduce"):
        size = next((n for n in numbers if n is not None), None)
        if size is None or "wait_group" in instruction.modifiers:
            return ""
        return f"{size} bytes," if size % _BULK_UNIT or not 0 <= size <= _MAX_BULK_BYTES else ""
    if "wait_group" in instruction.modifiers or len(numbers) < 3:
        return ""
    size = numbers[2]
    if size is None or size not in ((16,) if "cg" in instruction.modifiers else (4, 8, 16)):
        return f"{size} bytes,"
    return _within(numbers[3:4], size)


def _mbarrier(instruction: Instruction, numbers: list[int | None]) -> str:
    operation = instruction.modifiers[0] if instruction.modifiers else ""
    if "parity" in instruction.modifiers:
        return _within(numbers[2:3], 1)
    if operation.startswith("arrive") and "expect_tx" not in instruction.modifiers:
        count = numbers[2] if len(numbers) > 2 else None
        return f"a count of {count}" if count is not None and count < 1 else ""
    return ""
