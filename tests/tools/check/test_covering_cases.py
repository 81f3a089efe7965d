"""Covering cases of all shipped tasks: legal, few, and with all pairs or triples of levels."""

from __future__ import annotations

import random

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.check.covering_cases import Fits, Row, covering_array, design, levels_of
from astra_chat.tools.check.hidden_cases import draw_confirming, draw_covering, draw_swept
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Case, Device, Wrong

TOPK, ALIGN = find_task("topk_softmax"), find_task("moe_align_block_size")
MOST = {2: 135, 3: 420}
"""Cases of a task."""


def uncovered(task: Task, strength: int, cases: tuple[Case, ...]) -> list[Row]:
    """Combinations that a legal call of the design's size has and none of these cases, as rows."""
    of = design(task, strength)
    found = {levels for case in cases for levels in levels_of(of.row_of(case), strength)}
    fits, missing = Fits(of), list[Row]()
    every = covering_array(of.sizes, strength, random.Random(0))
    for levels in {levels for row in every.rows for levels in levels_of(row, strength)} - found:
        row = tuple(dict(levels).get(factor, -1) for factor in range(len(of.sizes)))
        if fits.bytes_of(row) <= of.most_bytes:
            missing.append(row)
    return missing


@pytest.mark.parametrize("name", task_names())
def test_every_check_has_all_pairs(name: str) -> None:
    task = find_task(name)
    cases, _ = draw_covering(task, random.Random(11))
    for case in cases:
        task.require_legal(case)
        task.require_small(case)
    assert len(cases) < MOST[2]
    assert not uncovered(task, 2, cases)


@pytest.mark.second_tier
@pytest.mark.parametrize("name", task_names())
def test_a_confirmation_has_all_triples(name: str) -> None:
    task = find_task(name)
    cases, _ = draw_covering(task, random.Random(12), confirming=True)
    for case in cases:
        task.require_legal(case)
        task.require_small(case)
    assert len(cases) < MOST[3]
    assert not uncovered(task, 3, cases)


def test_served_extents_and_powers_of_two_are_levels_of_their_own() -> None:
    levels = design(TOPK, 2).dims["experts"]
    for extent in (4, 8, 128, 160, 256, 512):
        assert (extent,) in levels
    assert {16, 32, 64, 1024} <= {extent for level in levels for extent in level}


@pytest.mark.second_tier
def test_a_case_within_a_group_is_drawn() -> None:
    """Another seed takes other extents of a group, and other values of what a row leaves open."""
    of = design(TOPK, 2)
    group = next(level for level in of.dims["experts"] if len(level) > 2)
    met = {
        case.dims["experts"]
        for seed in range(6)
        for case in draw_covering(TOPK, random.Random(seed))[0]
        if case.dims["experts"] in group
    }
    assert len(met) > len(group) / 2


def test_what_no_case_combines_is_said() -> None:
    _, left_out = draw_covering(find_task("silu_and_mul"), random.Random(1))
    (line,) = left_out
    assert line.startswith("tokens x d: ") and line.endswith("combinations take more than 2048 KiB")
    assert not draw_covering(ALIGN, random.Random(1))[1]


@pytest.mark.second_tier
def test_a_confirmation_s_cases_follow_from_its_seed() -> None:
    one, same, other = (draw_confirming(ALIGN, Seed(text))[0] for text in ("a", "a", "b"))
    triples = set(
        map(
            repr,
            draw_covering(ALIGN, Seed("a").of("covering triples").random(), confirming=True)[0],
        )
    )
    assert one == same != other and triples <= set(map(repr, one))


@pytest.mark.second_tier
def test_a_sweep_has_the_triples() -> None:
    assert not uncovered(TOPK, 3, draw_swept(TOPK, random.Random(4)))


def first_fault(task: Task, old: str, new: str, device: Device, *, triples: bool) -> object:
    """What the covering cases say of an edited baseline."""
    assert task.baseline.count(old) == 1
    source = task.baseline.replace(old, new)
    built, runner, oracle = build(task, source, device), Runner(task, device), Oracle(task)
    assert isinstance(built, Build), built
    try:
        cases, _ = draw_covering(task, random.Random(5), confirming=triples)
        made = oracle.oracle_cases(cases, runner.stop)
        return check(runner, built, [Call(t) for t in made])
    finally:
        oracle.close()


SUM = "  const float inverse = 1.0f / sum;\n"


@pytest.mark.second_tier
@pytest.mark.parametrize(
    ("condition", "triples"),
    [
        ("kExperts == 512 && sizeof(T) == 4", True),
        ("kExperts == 256 && bias != nullptr", False),
        ("kExperts == 128 && cap == 8.0f", False),
        ("kExperts == 8 && !renormalize", False),
        ("kExperts == 256 && sizeof(T) == 4 && bias != nullptr", True),
        ("kExperts == 128 && sizeof(T) == 4 && cap == 50.0f", True),
    ],
)
def test_one_wrong_instantiation_is_met(device: Device, condition: str, triples: bool) -> None:
    """Faults of the second kind are each of three factors, of which one may be that weights are not
    renormalized, where alone a wrong sum shows: all pairs need not meet them."""
    wrong = SUM.replace("1.0f / sum", f"({condition} ? 1.01f : 1.0f) / sum")
    outcome = first_fault(TOPK, SUM, wrong, device, triples=triples)
    assert isinstance(outcome, Wrong), outcome


@pytest.mark.second_tier
def test_a_fault_of_one_dtype_one_number_of_experts_and_one_boolean_is_met(device: Device) -> None:
    old = "? whole_blocks(counts[thread], block_size) : 0;"
    condition = "sizeof(I) == 8 && buckets == 257 && !pad && thread == 0"
    new = f"? whole_blocks(counts[thread] + ({condition} ? block_size : 0), block_size) : 0;"
    outcome = first_fault(ALIGN, old, new, device, triples=True)
    assert isinstance(outcome, Wrong), outcome
    assert outcome.case.dims["experts"] == 256 and outcome.case.dtype == "int64"
    assert outcome.case.scalars["pad_sorted_token_ids"] == 0
