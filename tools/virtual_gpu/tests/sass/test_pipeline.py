"""Cycles and rounds of code written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.sass.code import instruction, kernel

from astra_vgpu.sass.block_mapping import place
from astra_vgpu.sass.control_flow import basic_blocks, loops
from astra_vgpu.sass.disassembly import MachineInstruction
from astra_vgpu.sass.execution_counts import MappedCode
from astra_vgpu.sass.functional_units import BRANCH_CYCLES, XU_CYCLES, latency
from astra_vgpu.sass.pipeline import Cost, Timing, timings


def timed(
    *items: str | MachineInstruction, without: frozenset[int] = frozenset()
) -> Sequence[Timing]:
    """Timings of a warp that runs all blocks but these."""
    blocks = basic_blocks(kernel(*items))
    code = MappedCode(blocks, tuple(loops(blocks)), place(blocks, ()), ())
    return timings(code, frozenset(range(len(blocks))) - without)


def straight(*items: MachineInstruction) -> Cost:
    (timing,) = timed(*items, instruction("EXIT", stall=0))
    return replace(timing.steady, cycles=timing.steady.cycles - 1)


def test_stall_cycles_add_up() -> None:
    assert straight(instruction("FADD", stall=4), instruction("FADD", stall=2)) == Cost(6, 0)


def test_a_scoreboard_holds_who_waits_for_it() -> None:
    shuffle = instruction("SHFL.BFLY", stall=2, result=3)
    waiting = straight(shuffle, instruction("FADD", waits=(3,)))
    assert waiting.cycles == latency(shuffle) + 1
    assert straight(shuffle, instruction("FADD", waits=(2,))).cycles == 3


def test_a_fence_holds_all_that_follows() -> None:
    fence = instruction("MEMBAR.SC.GPU", stall=4)
    assert straight(fence, instruction("FADD", stall=2)).cycles == 6 + latency(fence)


def test_loads_that_wait_for_each_other_are_rounds() -> None:
    first, second = (instruction("LDG.E", result=board) for board in (0, 1))
    use = instruction("FADD", waits=(0, 1))
    assert straight(first, second, use).rounds == 1
    chained = instruction("LDG.E", result=1, waits=(0,))
    assert straight(first, chained, use).rounds == 2
    depbar = instruction("DEPBAR.LE SB0, 0x0")
    assert straight(instruction("LDGDEPBAR", result=0), depbar).rounds == 1


def test_the_unit_of_special_functions_takes_one_at_a_time() -> None:
    one = instruction("MUFU.EX2", stall=1)
    assert straight(one, one, one).cycles == 2 * XU_CYCLES + 1


def test_cycles_are_told_by_unit_and_by_what_comes_before_the_load() -> None:
    """An address that waits for a constant, the load, then two special functions in a queue."""
    constant, load = instruction("LDC", stall=2, result=1), instruction("LDG.E", result=0)
    address = instruction("IADD3", stall=5, waits=(1,))
    one, other = instruction("MUFU.EX2", stall=1, waits=(0,)), instruction("MUFU.EX2", stall=1)
    cost = straight(constant, address, load, one, other)
    assert cost.units["misc"] == latency(constant) and cost.units["alu"] == 5
    assert cost.units["xu"] == XU_CYCLES + 1, "the second waits for the unit"
    assert cost.before_load == latency(constant) + 5 + max(1, load.stall)
    assert sum(cost.units.values()) == cost.cycles + 1, "with EXIT's own"
    assert straight(address).before_load == straight(address).cycles + 1, "no load: all of it"


def test_cycles_and_rounds_are_told_by_line() -> None:
    """What is waited for has them: an address, two loads one behind the other, a queue."""
    code = (
        instruction("LDC", 1, stall=2, result=1),
        instruction("LDG.E", 2, result=0, waits=(1,)),
        instruction("LDG.E", 3, result=2, waits=(0,)),
        instruction("MUFU.EX2", 4, waits=(2,)),
        instruction("MUFU.EX2", 4),
        instruction("SHFL.BFLY", 5, result=3),
        instruction("FADD", 6, stall=4, waits=(3,)),
    )
    cost = straight(*code)
    assert (
        cost.load_lines == {(2, 3): 1, (3, 4): 1} and sum(cost.load_lines.values()) == cost.rounds
    )
    assert cost.lines[1] == latency(code[0]) and cost.lines[4] == XU_CYCLES + 1
    assert cost.lines[5] == latency(code[5]) and cost.lines[6] == 4
    assert sum(cost.lines.values()) == sum(cost.units.values())


def test_a_loop_s_first_turn_waits_for_what_was_before() -> None:
    """A load before the loop; in the loop each turn waits for the turn before it."""
    load = instruction("LDG.E", result=0)
    timing = timed(
        instruction("SHFL", result=1),
        ".L_x_0:",
        instruction("IADD3", waits=(0, 1)),
        load,
        instruction("@P0 BRA `(.L_x_0)"),
        "EXIT",
    )
    assert (timing[1].first.rounds, timing[1].steady.rounds) == (0, 1)
    assert timing[1].first.cycles > timing[1].steady.cycles == 3 + BRANCH_CYCLES
    assert timing[0].first == timing[0].steady


def test_rare_blocks_take_no_time() -> None:
    timing = timed("EXIT", instruction("FADD", stall=9), "EXIT")
    assert timing[1].steady == Cost(0, 0)


def test_each_arm_of_a_branch_waits_for_what_was_loaded_before_it() -> None:
    """An index is loaded, and both arms load what it says: two rounds, whichever arm is taken."""
    load = instruction("LDG.E", result=0)
    use, store = instruction("LDG.E", result=1, waits=(0,)), instruction("STG.E", waits=(1,))
    code = (
        load,
        instruction("@P0 BRA `(.L_1)"),
        use,
        store,
        instruction("EXIT"),
        ".L_1:",
        use,
        store,
        instruction("EXIT"),
    )
    for other in (1, 2):
        costs = [timing.steady for timing in timed(*code, without=frozenset({other}))]
        assert sum(cost.rounds for cost in costs) == 2 and costs[other].rounds == 0
