"""Winners over today's kernels, computed through our baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import candidate_id
from lab.baselines.evidence import Evidence, read
from lab.live_runs import load
from lab.over_today import OverToday, _row, document, fastest_today, over_today
from lab.result_tables import geomean
from lab.rivals import read_registry
from lab.side_by_side import side_by_side
from tests.recorded_files import BASELINES, EXAMPLES, TODAY, live_runs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def evidence() -> list[Evidence]:
    return [read(EXAMPLES / name) for name in (*BASELINES, *TODAY)]


@pytest.mark.second_tier
def test_the_page_is_what_the_command_makes_of_the_records(evidence: list[Evidence]) -> None:
    runs = load(live_runs())
    page = (ROOT / "docs" / "research" / "over-today.md").read_text()
    assert document(runs, evidence) + "\n" == page
    (gelu,) = (one for one in over_today(runs, evidence, "NVIDIA H200") if "gelu" in one.task)
    assert gelu.mean < gelu.ratio and gelu.least[1] < gelu.mean < max(r for _, r, _ in gelu.cases)


def test_a_kernel_that_misses_the_contract_stands_first_in_its_comparison(
    evidence: list[Evidence],
) -> None:
    """The ratio of such a kernel is turned round."""
    now = candidate_id(find_task("rotary_embedding").baseline)
    (found,) = (
        c
        for one in evidence
        for c in one.comparisons
        if one.device.spec == "h100" and c.first.name == "library" and c.task == "rotary_embedding"
    )
    assert found.second.name == "sglang"
    best = fastest_today([found], now)
    assert best == {case.case.label: (1 / case.ratio, "library") for case in found.cases}


def test_an_earlier_baseline_of_ours_does_not_count(evidence: list[Evidence]) -> None:
    found = [c for one in evidence for c in one.comparisons if c.task == "rmsnorm"]
    assert fastest_today(found, candidate_id(find_task("rmsnorm").baseline))
    assert not fastest_today(found, "0" * 12)


def test_a_case_with_rivals_of_both_kinds_counts_by_the_lower_ratio(
    evidence: list[Evidence],
) -> None:
    """rmsnorm on an H200 today: FlashInfer's kernel side by side, SGLang's in two runs."""
    (jit,) = (
        c
        for c in evidence[1].comparisons
        if (c.task, c.first.name, c.second.name) == ("rmsnorm", "sglang", "jit")
    )
    winner = jit.first.model_copy(update={"tier": "winner"})
    one = jit.model_copy(update={"first": jit.second, "second": winner, "cases": jit.cases[:3]})
    (side,) = side_by_side([one], {"rmsnorm": winner.content}, {"rmsnorm": 14}, read_registry())
    assert not side.is_whole
    labels = [case.case.label for case in jit.cases]
    quotient = OverToday("rmsnorm", 1.3, ((labels[0], 0.5, 4.0), (labels[3], 2.0, 3.0)), 14, ())
    row = _row(side, quotient, "side by side")
    assert (row.lowest, row.share, row.where) == (0.5, " (4 of 14 cases)", "both")
    rest = [(case.ratio, case.weight) for case in jit.cases[1:3]]
    ratios, weights = zip(*[(0.5, 4.0), *rest, (2.0, 3.0)], strict=True)
    assert row.mean == pytest.approx(geomean(ratios, weights))
    alone = _row(None, quotient, "")
    assert alone.where == "two runs" and alone.cells[0].endswith(" (2 of 14 cases)")
