"""The roles' standing instructions are there."""

from __future__ import annotations

from typing import get_args

import pytest

from astra_chat.agents.roles import instructions
from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.profiling.metrics import BOTTLENECKS
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


def test_the_rules_of_a_kernel_are_said_once_to_each_who_writes_one() -> None:
    for role in get_args(RoleName):
        times = instructions(role).count("# Rules of a kernel file")
        assert times == (role in ("coder", "fixer", "single"))
