"""Blocks of machine code matched with the PTX's, by lines."""

from __future__ import annotations

from tests.sass.code import instruction, kernel

from astra_vgpu import numpy_engine
from astra_vgpu.ptx.parser import parse
from astra_vgpu.runtime.compile import Compiled
from astra_vgpu.sass.block_mapping import Placement, PtxBlock, place
from astra_vgpu.sass.control_flow import basic_blocks

PTX = (PtxBlock((1, 2, 3), (1,)), PtxBlock((4, 5, 6, 7), (1, 2), True, frozenset({6, 7})))


def placed(*lines: tuple[str, int]) -> Placement:
    code = kernel(*(instruction(text, line) for text, line in lines), "EXIT")
    return place(basic_blocks(code), PTX)[0]


def test_most_votes_win_and_memory_has_more() -> None:
    assert placed(("IADD3", 1), ("IADD3", 2), ("IADD3", 4)).block == 0
    assert placed(("IADD3", 1), ("IADD3", 2), ("LDG.E", 4)).block == 1
    assert placed(("IADD3", 4), *[("MOV", 1)] * 5).block == 1, "what is moved easily counts little"
    assert placed(("IADD3", 99)).block is None
    assert placed(("BSYNC", 4)).block is None, "lanes that went round meet there too"


def test_a_line_that_occurs_several_times_is_unrolled() -> None:
    turns = [("LDG.E", 4), ("FFMA", 5)] * 4
    assert placed(*turns) == Placement(1, 4, frozenset({4}), frozenset({4, 5}))
    assert placed(*[("FFMA", 5)] * 3, ("IADD3", 6), ("ISETP", 7)).copies == 3


def test_a_line_may_become_several_instructions() -> None:
    """A quotient's line, once in a loop: its rarest opcode counts."""
    assert placed(("MUFU.RCP", 5), *[("FFMA", 5)] * 5).copies == 1
    assert placed(*[("IADD3", 1)] * 4).copies == 1, "no loop, nothing to unroll"


def test_an_inlined_line_occurs_as_often_as_it_was_inlined() -> None:
    twice = (PtxBlock((4, 4, 5), (0,), True),)
    blocks = basic_blocks(kernel(*(instruction("LDG.E", 4) for _ in range(4)), "EXIT"))
    assert place(blocks, twice)[0].copies == 2


def test_outlines_of_real_kernels(known: Compiled) -> None:
    module = parse(known.ptx.read_text())
    name = next(kernel for kernel in module.kernels if "turns" in kernel)
    blocks = numpy_engine.translate(module, name).outline
    assert any(block.counts and block.counting for block in blocks)
    assert all(line for block in blocks for line in block.lines)
