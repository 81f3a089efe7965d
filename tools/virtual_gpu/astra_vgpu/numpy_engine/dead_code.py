"""Dead code is translated too, so that unsupported instructions are refused wherever they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from astra_vgpu.lowering.clusters import of_one_block
from astra_vgpu.lowering.control_flow import unreached_instructions
from astra_vgpu.lowering.inline import FlatKernel
from astra_vgpu.numpy_engine.code import Code, Place, Unit
from astra_vgpu.ptx.syntax import Function, Instruction, Module
from astra_vgpu.ptx.validation import unreached


def translate_dead_code(
    module: Module, kernel: str, flat: FlatKernel, places: Mapping[str, Place]
) -> None:
    """Translates the body's dead code, and functions that no kernel reaches. Raises
    PtxUnsupported."""
    unit = Unit(kernel=kernel, local=set(), places=dict(places))
    for instruction in unreached_instructions(flat):
        Code(unit, instruction).translate()
    for function in unreached(module):
        own = {name: Place("slot", 0) for name in _slots(function)}
        own |= {n: Place(v.space, 0) for n, v in function.variables.items() if v.space != "param"}
        alone = Unit(kernel=kernel, local=set(), places={**places, **own})
        for instruction in _plain(function):
            Code(alone, instruction).translate()


def _slots(function: Function) -> Iterator[str]:
    yield from (p.name for p in (*function.params, *function.returns))
    yield from (n for n, v in function.variables.items() if v.space == "param")


_ENDS = frozenset("bra brx ret exit call bar barrier mbarrier".split())
"""Families that are left out: the parser and validation.py know enough of them; the engine does not
know them one by one."""


def _plain(function: Function) -> Iterator[Instruction]:
    for statement in function.body:
        if isinstance(statement, Instruction) and statement.family not in _ENDS:
            yield from of_one_block(statement)
