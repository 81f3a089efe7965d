"""Evidence of an evaluation: it names what was judged, by which judge, against which baseline."""

from __future__ import annotations

import hashlib

import pytest

from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evidence
from astra_chat.tools.judge import Judge
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Crashed, Refused
from tests.small_tasks import within

TASK = within(find_task("silu_and_mul"), tokens=128, d=14336)


def judged(source: str, *, seed: str = "ab" * 16) -> Evidence:
    with Judge(TASK, pick_device("virtual"), trust=True, entropy=Entropy(seed)) as judge:
        evaluation = judge.evaluate(source)
        assert evaluation.evidence is not None
        return evaluation.evidence


@pytest.mark.second_tier
def test_the_baseline_against_itself_has_its_own_hashes() -> None:
    source = TASK.baseline
    found = judged(source)
    assert found.judge_sha256 == judge_sha256()
    assert found.cubin_sha256 == found.baseline_cubin_sha256
    assert len(found.cubin_sha256) == len(hashlib.sha256().hexdigest())
    assert all(plan.plan_sha256 == plan.baseline_plan_sha256 for plan in found.plans)
    assert len({plan.plan_sha256 for plan in found.plans}) == len(found.plans) > 1
    assert all("grid" in plan.launches and "block" in plan.launches for plan in found.plans)


@pytest.mark.second_tier
def test_a_launcher_that_crashes_on_an_own_case_ends_at_the_plan() -> None:
    source = TASK.baseline
    head, body = source.rsplit('extern "C"', 1)
    crash = body.replace("{", "{\n    *(volatile int *)0 = 1;", 1)
    with Judge(TASK, pick_device("virtual"), trust=True) as judge:
        evaluation = judge.check(f'{head}extern "C"{crash}')
    assert isinstance(evaluation.outcome, Crashed | Refused)
    assert evaluation.steps[-1].name == "plan"
    assert evaluation.evidence is None
