"""What is tried, drawn instead and refused where a baseline fails on a part of its domain."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from astra_chat.tools.check.lost_cases import Failed, below_floor, hopeful, instead
from astra_chat.tools.descriptions import describe
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, DTypeName, Unsupported
from tests.tools.check.failing_baseline import STAGED, failing_task


def row(d: int, rows: int = 2, dtype: DTypeName = "float32") -> Case:
    return Case(dims={"rows": rows, "d": d}, dtype=dtype)


def crashed(case: Case) -> Failed:
    return Failed(case, Crashed(case=case, message="launch 1 of the launcher fails"))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return failing_task(tmp_path, STAGED)


def test_what_is_nearer_to_a_failure_is_not_tried() -> None:
    failed, passed = [row(12_000), row(16_000)], [row(64), row(1000)]
    found = hopeful([row(100), row(13_000), row(2000), row(9000)], failed, passed)
    assert [one.near if one else None for one in found] == [None, row(12_000), None, row(12_000)]
    assert str(found[1]) == "2x13000 float32: not tried: the baseline failed on 2x12000 float32"
    assert all(hopeful([row(64)], failed, [])), "nothing works"


def test_other_dtypes_are_far_apart() -> None:
    (tried,) = hopeful([row(900, dtype="float16")], [row(950)], [row(64, dtype="float16")])
    assert tried is None


def test_a_lost_case_is_drawn_again_nearer_to_one_that_works(task: Task) -> None:
    lost = [row(16_000), row(15_000, rows=4).model_copy(update={"values": "ramp"})]
    passed = [row(64), row(4096)]
    found = instead(task, lost, passed, random.Random(3))
    assert found == instead(task, lost, passed, random.Random(3)), "by the seed"
    assert len(found) == 2 and found[1].values == "ramp"
    assert all(task.allows(case) and 4096 <= case.dims["d"] <= 8300 for case in found)
    nearer = instead(task, lost, passed, random.Random(3), attempt=1)
    assert all(4096 <= case.dims["d"] <= 5800 for case in nearer)
    assert instead(task, lost, [], random.Random(3)) == []


def test_half_of_the_drawn_cases_must_be_judged() -> None:
    drawn = [row(d) for d in range(1, 11)]
    failed = [crashed(case) for case in drawn[5:]]
    assert below_floor(drawn, drawn[:5], failed) is None
    lacking = below_floor(drawn, drawn[:4], failed)
    assert isinstance(lacking, Unsupported)
    assert describe(lacking) == (
        "unsupported: the baseline cannot be judged on enough drawn cases: 4 are left, but at least"
        " 5 are needed; it fails on rows=2 d=6 float32: launch 1 of the launcher fails; repair"
        " the baseline, or narrow task.toml to what it supports"
    )


def test_some_cases_of_every_dtype_must_be_judged() -> None:
    drawn = [*(row(d) for d in range(1, 11)), *(row(d, dtype="float16") for d in range(1, 5))]
    assert below_floor(drawn, drawn[:11], []) is None
    lacking = below_floor(drawn, drawn[:10], [])
    assert lacking and "enough drawn cases of float16: 0 are left, but at least 1" in lacking.what


def test_others_drawn_near_what_works_are_not_enough() -> None:
    drawn = [row(d) for d in range(1, 13)]
    others = [row(d, rows=3) for d in range(1, 13)]
    assert below_floor(drawn, [*drawn[:3], *others[:3]], []) is None
    lacking = below_floor(drawn, [*drawn[:2], *others], [])
    assert lacking and "enough cases as they were drawn: 2 are left, but at least 3" in lacking.what
