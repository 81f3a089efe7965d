"""cp.async.bulk: bulk copies without tensor maps and clusters, for both engines."""

from __future__ import annotations

from dataclasses import dataclass

from astra_vgpu.ptx.modifiers import Modifiers
from astra_vgpu.ptx.syntax import Instruction

ALIGNMENT = 16
"""Alignment in bytes of both addresses and of the size of a bulk copy."""
BAD_SIZE = "a bulk copy of {} bytes, not a multiple of 16"
COPY_IN_FLIGHT = (
    "read of bytes that a bulk copy is still writing: the phase of its mbarrier was not waited for"
)
COPY_STILL_READING = (
    "write of bytes that a bulk copy to global memory still reads: its group was not waited for"
)
COPY_READS_AT_END = (
    "the block ends while a bulk copy to global memory still reads its shared memory: its group was"
    " not waited for"
)
COMPLETES = "mbarrier::complete_tx::bytes"
NOT_FENCED = (
    "a bulk copy to global memory reads bytes of shared memory that a thread stored, with no"
    " fence.proxy.async after the store that comes before the copy"
)
"""Copies go by another path to memory than stores do (the async proxy of the PTX ISA)."""
_REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}


@dataclass(frozen=True)
class Bulk:
    """to_shared and to_global have [to], [from], size; to_shared also [mbarrier]. commit has no
    operand, wait the groups that may be left; prefetch does nothing here."""

    action: str
    """to_shared, to_global, commit, wait, prefetch."""
    reduction: str = ""
    """to_global: how the bytes meet those that are there; empty: they take their place."""
    type: str = ""
    reads_only: bool = False
    """wait: until the groups have read their shared memory; what they write may still be on its
    way."""


def is_bulk(instruction: Instruction) -> bool:
    return instruction.family == "cp" and "bulk" in instruction.modifiers


def bulk_of(code: Modifiers) -> Bulk:
    """Takes the modifiers of cp.async.bulk and cp.reduce.async.bulk. Raises PtxUnsupported."""
    reduces = code.flag("reduce")
    code.option("async")
    code.option("bulk")
    if not reduces and (plain := code.optional("commit_group", "wait_group", "prefetch")):
        return _plain(code, plain)
    spaces = tuple(m for m in code.instruction.modifiers if m.startswith(("shared", "global")))
    code.ignore_hints()
    if code.flag("multicast::cluster") or spaces == ("shared::cluster", "shared::cta"):
        raise code.refuse("a copy between the blocks of a cluster (it needs a GPU)")
    for space in spaces:
        code.option(space)
    if spaces in (("shared::cluster", "global"), ("shared::cta", "global")) and not reduces:
        code.option(COMPLETES)
        code.count(4)
        return Bulk("to_shared")
    if spaces != ("global", "shared::cta"):
        raise code.refuse("this direction")
    code.option("bulk_group")
    code.count(3)
    if not reduces:
        return Bulk("to_global")
    how = code.option(*_REDUCTIONS)
    return Bulk("to_global", how, code.type(*_REDUCTIONS[how]))


def _plain(code: Modifiers, what: str) -> Bulk:
    if what == "prefetch":
        code.option("L2")
        code.option("global")
        code.ignore_hints()
        code.count(2)
        return Bulk("prefetch")
    reads_only = what == "wait_group" and code.flag("read")
    code.count(0 if what == "commit_group" else 1)
    return Bulk(what.removesuffix("_group"), reads_only=reads_only)
