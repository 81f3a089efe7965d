"""Launchers that look at the host's state, which a server may have set otherwise, are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import (
    VARIABLES,
    drawn_environments,
    drawn_states,
    record,
    record_each,
    with_rounding,
)
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut
from astra_vgpu.ground.gpu_specs import spec

VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
TASK = find_task("silu_and_mul")
CASES = (
    Case(dims={"tokens": 3, "d": 24}, dtype="float16"),
    Case(dims={"tokens": 1, "d": 2304}, dtype="bfloat16", offset=1),
)
Recorded = tuple[LaunchPlan, ...] | Refused | Crashed | TimedOut
Record = Callable[[str, int], Recorded]


@pytest.fixture(scope="module")
def looking() -> Build:
    found = build(TASK, (Path(__file__).parent / "host_state.cu").read_text(), VIRTUAL)
    assert isinstance(found, Build), found
    return found


def named(entry: str) -> Task:
    return TASK.model_copy(update={"entry": entry})


@pytest.mark.parametrize(
    "entry",
    [
        "where_denormals_are_flushed",
        "where_both_bits_are_set",
        "after_an_exception",
        "one_fewer_where_numbers_round",
        "a_count_beside_a_number",
        "a_count_in_a_struct",
        "where_home_is_set",
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_server_may_have_set_must_not_matter(looking: Build, entry: str, seed: int) -> None:
    """Every recording meets both values of these states, whatever is drawn."""
    outcome = record(looking, named(entry), CASES, spec("h200"), random.Random(seed))
    assert isinstance(outcome, Refused) and outcome.gate == "plan", outcome


@pytest.mark.parametrize(
    "entry",
    [
        "where_numbers_round_up",
        "where_numbers_round_down",
        "where_more_is_set",
        "where_errno_is_odd",
        "where_a_signal_is_blocked",
    ],
)
def test_what_is_drawn_freely_shows_within_a_few_recordings(looking: Build, entry: str) -> None:
    found = [
        record(looking, named(entry), CASES, spec("h200"), random.Random(seed)) for seed in range(6)
    ]
    assert any(isinstance(outcome, Refused) for outcome in found), found


@pytest.mark.parametrize("entry", ["a_reciprocal", "a_root_in_double", "numbers_in_a_struct"])
def test_numbers_for_a_kernel_may_be_rounded(looking: Build, entry: str) -> None:
    for seed in range(6):
        plans = record(looking, named(entry), CASES, spec("h200"), random.Random(seed))
        assert isinstance(plans, tuple) and plans[0].kernels[0].block == (32, 1, 1), plans


FAILED = {
    "reports_on_cerr": (
        "launch 1 of the launcher fails with CUDA error 1 (invalid argument):"
        " kernel scale<float>, grid (3, 1, 1), block (32, 55, 1), 0 bytes of dynamic shared memory:"
        " 1,760 threads in a block, but at most 1,024"
    ),
    "tall_grid": "(4, 70000, 1), block (256, 1, 1), 0 bytes of dynamic shared memory:"
    " grid.y is 70,000, but at most 65,535 is allowed",
    "empty_grid": "CUDA error 1 (invalid argument): kernel scale<float>, grid"
    " (0, 1, 1), block (256, 1, 1), 0 bytes of dynamic shared memory: grid.x is 0, but must"
    " be at least 1",
    "beyond_launch_bounds": "CUDA error 1 (invalid argument): kernel bounded, grid (1, 1, 1), block"
    " (128, 1, 1), 0 bytes of dynamic shared memory: 128 threads in a block, but"
    " __launch_bounds__ allows at most 64",
    "second_is_too_large": "launch 2 of the launcher fails with CUDA error 1 (invalid argument):"
    " kernel staged, grid (3, 1, 1), block (128, 1, 1), 60,000 bytes of dynamic shared memory:"
    " at most 49,152 bytes without"
    " cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)",
    "raised_once": "53,000 bytes of dynamic shared memory: at most 51,500 bytes, the size last"
    " passed to cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize",
    "more_than_there_is": "232,448 bytes of dynamic shared memory: at most 216,064 bytes, the size",
    "wide_block_by_attributes": "CUDA error 1 (invalid argument): kernel scale<float>",
}


@pytest.mark.parametrize("entry", FAILED)
def test_a_failed_launch_is_named_with_its_numbers(looking: Build, entry: str) -> None:
    outcome = record(looking, named(entry), CASES[:1], spec("h200"), random.Random(7))
    assert isinstance(outcome, Crashed)
    assert FAILED[entry] in outcome.message and "\n" not in outcome.message


@pytest.mark.parametrize("entry", ["raised_once", "an_error_of_its_own"])
def test_an_error_leaves_the_other_cases_their_plans(looking: Build, entry: str) -> None:
    """The first case needs more shared memory than was asked for, the second less."""
    outcome = record_each(looking, named(entry), CASES, spec("h200"), random.Random(3))
    assert isinstance(outcome, tuple)
    failing = 0 if entry == "raised_once" else 1
    assert isinstance(outcome[failing], Crashed) and outcome[failing].case == CASES[failing]
    assert isinstance(outcome[1 - failing], LaunchPlan)
    if entry == "an_error_of_its_own":
        assert isinstance(outcome[1], Crashed)
        assert outcome[1].message.startswith("the launcher returned CUDA error 101 (")


def test_the_first_two_states_are_opposite() -> None:
    for seed in range(8):
        first, second, *others = drawn_states(random.Random(seed), 8)
        bits = 0b11111111 << 2
        assert {first & bits, second & bits} == {0, bits} and len(others) == 6
        assert all(state & 3 == 0 for state in (first, second, *others))
        assert with_rounding(first, 2) & 3 == 2


def test_each_common_variable_is_in_one_of_two_environments() -> None:
    one, other = drawn_environments(random.Random(5))
    assert not VARIABLES.keys() & one.keys() & other.keys()
    assert one.keys() | other.keys() >= VARIABLES.keys()
    assert drawn_environments(random.Random(5)) == (one, other)
