"""Translates a kernel to one C file. Nothing runs yet; unsupported instructions are refused."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_vgpu import numpy_engine
from astra_vgpu.c_engine.build import ensure_library
from astra_vgpu.c_engine.code import Code, Unit
from astra_vgpu.c_engine.control import translate_end
from astra_vgpu.c_engine.steps import Step, block_text, find_uniform
from astra_vgpu.lowering.control_flow import BasicBlock, local_registers
from astra_vgpu.lowering.float_bits import registers_read_as_bits
from astra_vgpu.lowering.float_stores import float_stores
from astra_vgpu.lowering.post_dominators import post_dominators
from astra_vgpu.lowering.shared_arrays import SharedArray, reached_arrays
from astra_vgpu.lowering.store_merging import store_runs
from astra_vgpu.numpy_engine.block_costs import load_levels
from astra_vgpu.numpy_engine.program import prepare, shared_arrays
from astra_vgpu.ptx.syntax import Instruction, Module

NO_INSTRUCTION = 0xFFFFFFFF


@dataclass(eq=False, kw_only=True)
class Program:
    """A kernel's C source, and what Python needs to launch it and to say what went wrong."""

    reference: numpy_engine.Program
    """Program of this kernel on the NumPy engine: sizes and instruction mixes are taken from
    there."""
    source: str
    instructions: tuple[Instruction, ...]
    """Instructions that can fault, by the number under which C knows them."""
    symbols: tuple[str, ...]
    sites: int
    """Number of memory instructions that C tells apart."""
    serial: bool
    """Blocks run one after the other: they talk to each other through memory."""
    reached: Mapping[int, tuple[SharedArray, ...]]
    """Shared arrays that an instruction may access, by its id(): shared_arrays.reached_arrays."""
    _library: Path | None = None

    def use(self, library: Path) -> None:
        """Takes a library that another process compiled from this source."""
        self._library = library

    def library(self) -> Path:
        """The shared library; compiled on first use. Raises MissingDependency."""
        if self._library is None:
            self._library = ensure_library(self.source)
        return self._library


_programs: weakref.WeakKeyDictionary[Module, dict[tuple[str, bool], Program]] = (
    weakref.WeakKeyDictionary()
)


def translate(module: Module, kernel: str, *, cooperative: bool = False) -> Program:
    """The program of one kernel; made once a module, compiled when it is first run.

    Raises PtxUnsupported for what the NumPy engine does not support (the whitelists are its), and
    for what only that engine has; KeyError for a kernel that the module does not have.
    """
    known = _programs.setdefault(module, {})
    key = kernel, cooperative
    if key not in known:
        known[key] = _translate(module, kernel, cooperative)
    return known[key]


def _translate(module: Module, kernel: str, cooperative: bool) -> Program:
    reference = numpy_engine.translate(module, kernel, cooperative=cooperative)
    prepared = prepare(module, module.kernels[kernel], cooperative=cooperative)
    unit = Unit(
        kernel=kernel,
        local=local_registers(prepared.blocks),
        places=prepared.places,
        param_bytes=prepared.kernel.param_bytes,
        levels=load_levels(prepared.blocks),
        in_registers=prepared.in_registers,
        runs=store_runs(prepared.blocks),
        looks=prepared.looks,
        float_stores=float_stores(prepared.blocks),
        read_as_bits=registers_read_as_bits(prepared.blocks),
        sums=prepared.sums,
        deciding=prepared.deciding,
        data_reads=prepared.data_reads,
        reached=reached_arrays(prepared.blocks, shared_arrays(module, prepared.kernel)),
    )
    rejoined = post_dominators(prepared.blocks)
    blocks = [
        _block(unit, block, number, rejoined[number])
        for number, block in enumerate(prepared.blocks)
    ]
    find_uniform(blocks, unit.variables)
    firsts = [_first(unit, block) for block in prepared.blocks]
    return Program(
        reference=reference,
        source=_source(unit, blocks, firsts, reference),
        instructions=tuple(unit.instructions),
        symbols=tuple(unit.symbols),
        sites=len(unit.sites) + 1,
        serial=unit.serial or cooperative,
        reached=unit.reached,
    )


def _block(unit: Unit, block: BasicBlock, number: int, rejoined: frozenset[int]) -> list[Step]:
    steps: list[Step] = []
    for instruction in block.body:
        steps += Code(unit, instruction).translate()
    return [*steps, *translate_end(unit, block.end, number, rejoined)]


def _first(unit: Unit, block: BasicBlock) -> int:
    """The number of the block's first instruction, for messages about the block."""
    instruction = next(iter(block.instructions), None)
    return NO_INSTRUCTION if instruction is None else unit.instruction(instruction)


def _source(
    unit: Unit, blocks: Sequence[Sequence[Step]], firsts: list[int], reference: numpy_engine.Program
) -> str:
    variables = unit.variables
    registers = [f"  {variables.types[n]} x{n}[LANES];" for n in sorted(variables.crossing)]
    lines = [
        '#include "simt.h"',
        f"#define PROGRAM_WORDS {len(blocks) // 64 + 1}",
        *_table("struct site", "sites", unit.sites),
        *_table("struct barrier", "barriers", unit.barriers),
        *_table("struct poll", "polls", unit.polls),
        *unit.tables,
        *_table("struct mix", "mixes", _mixes(reference, firsts)),
        "struct regs {",
        "  uint32_t none[LANES];",
        *registers,
        "} ALIGNED;",
        "static void run(struct warp *w) {",
        "  struct regs *restrict const R = w->regs;",
        *(f"  const {variables.types[n]} x{n} = {t};" for n, t in variables.uniform.items()),
        "  for (int block; (block = next_block(w)) >= 0;) switch (block) {",
    ]
    for index, steps in enumerate(blocks):
        if reference.blocks[index].only_leaves:
            continue
        lines += [f"    case {index}: {{", f"      ENTER({index})"]
        lines += [f"      {line}" for line in block_text(steps, variables)]
        lines += ["    } break;"]
    lines += [
        "  }",
        "}",
        f"const struct program program = {{run, mixes, {len(blocks)}, sizeof(struct regs), "
        f"{len(unit.sites) + 1}, {int(reference.cooperative)}, {int(unit.looks)}, "
        f"{int(reference.has_mbarriers)}}};",
        "",
    ]
    return "\n".join(lines)


def _table(c_type: str, name: str, rows: Sequence[str]) -> list[str]:
    return [
        f"static const {c_type} {name}[] __attribute__((unused)) = {{",
        *(f"  {r}," for r in rows or ["{0}"]),
        "};",
    ]


def _mixes(reference: numpy_engine.Program, firsts: list[int]) -> list[str]:
    return [
        f"{{{b.mix.instructions}, {b.mix.cycles}, {b.mix.loads}, {b.mix.rounds}, {b.mix.turns}, "
        f"{int(b.mix.head)}, {int(b.only_leaves)}, {first}u, {b.wait}}}"
        for b, first in zip(reference.blocks, firsts, strict=True)
    ]
