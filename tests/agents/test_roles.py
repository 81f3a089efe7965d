"""The roles' standing instructions are there."""

from __future__ import annotations

from typing import get_args

import pytest

from astra_chat.agents.roles import instructions
from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.profiling.metrics import (
    BOTTLENECKS,
    CHAIN,
    CHAIN_BEFORE_LOAD,
    LEFT,
    LOAD_ROUNDS,
    MACHINE_PATH,
    OCCUPANCY_LIMIT,
    OVER_LEAST,
    REACHABLE,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    WAVES,
)
from astra_chat.tools.types import Basis, ValueFamily
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.constants import FITTED
from astra_vgpu.model.issue import SLOTS


@pytest.mark.parametrize("role", MODEL_ROLES)
def test_every_role_has_instructions(role: RoleName) -> None:
    text = instructions(role)
    assert f"# {role.capitalize()}" in text
    assert "JSON" in text, "the shared part comes first"


def test_the_profiler_and_the_tester_are_told_all_words_that_they_may_use() -> None:
    for word in BOTTLENECKS:
        assert word in instructions("profiler").replace(",", " ").replace(".", " ").split()
    for family in get_args(ValueFamily):
        assert f"`{family}`" in instructions("tester")


def test_what_several_roles_are_told_is_said_once_to_each() -> None:
    for role in get_args(RoleName):
        told = instructions(role)
        plans = role in ("planner", "single")
        assert told.count("# Rules of a kernel file") == (plans or role in ("coder", "fixer"))
        assert told.count("# How to read") == (plans or role in ("coder", "profiler"))


def told_on_one_line(basis: Basis) -> str:
    return " ".join(instructions("planner", basis).split())


def test_figures_of_the_model_are_those_that_are_told() -> None:
    told, h200 = told_on_one_line("estimated"), spec("h200")
    assert f"takes {FITTED.start:.0f} cycles for each of its warps" in told
    assert f"the grid takes {h200.block_dispatch_ns:.1f} ns per block" in told
    assert f"a round of loads from DRAM takes {LOAD_ROUND_US} us on an H200" in told
    assert f"100 cycles take {100 / h200.clocks_per_us:.2f} us" in told
    assert 0.2 < 1 - FITTED.first_round < 0.3, "a quarter may be hidden"
    assert f"about {FITTED.pace / SLOTS:.0f} cycles for each of the" in told


LOAD_ROUND_US = f"{FITTED.load * spec('h200').dram_latency_cycles / spec('h200').clocks_per_us:.2f}"
COUNTED = (LOAD_ROUNDS, MACHINE_PATH, CHAIN, CHAIN_BEFORE_LOAD)


def test_a_measured_run_is_told_of_what_a_gpu_says() -> None:
    told = told_on_one_line("measured")
    assert told.count("# How to read") == 1 and "they are not measurements" in told
    assert "In the estimate" not in told
    for name in (*TIME_PARTS.values(), REACHABLE, LEFT, WAVES, OCCUPANCY_LIMIT, *COUNTED):
        assert name in told
    assert f"takes {spec('h200').block_dispatch_ns:.1f} ns per block" in told
    assert f"each round takes about {LOAD_ROUND_US} us from DRAM" in told


def test_what_the_tables_show_is_defined() -> None:
    told = instructions("planner")
    assert CHAIN_BEFORE_LOAD in told and OVER_LEAST in told and "`chain_cycles_UNIT`" in told
    for name in (
        *TIME_PARTS.values(),
        REACHABLE,
        LEFT,
        LOAD_ROUNDS,
        MACHINE_PATH,
        CHAIN,
        TURNS,
        WARPS_HELD,
        WAVES,
        OCCUPANCY_LIMIT,
    ):
        assert name in told
