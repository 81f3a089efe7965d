"""The roles' standing instructions are there."""

from __future__ import annotations

from typing import get_args

import pytest

from astra_chat.agents.roles import instructions
from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.profiling.metrics import (
    BOTTLENECKS,
    CHAIN,
    LEFT,
    LOAD_ROUNDS,
    MACHINE_PATH,
    OCCUPANCY_LIMIT,
    REACHABLE,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    WAVES,
)
from astra_chat.tools.types import ValueFamily


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


def test_what_the_tables_show_is_defined() -> None:
    told = instructions("planner")
    for name in (*TIME_PARTS.values(), REACHABLE, LEFT, LOAD_ROUNDS, MACHINE_PATH, CHAIN, TURNS,
                 WARPS_HELD, WAVES, OCCUPANCY_LIMIT):  # fmt: skip
        assert name in told
