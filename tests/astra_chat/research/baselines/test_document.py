"""docs/research/baselines.md: made from the recorded evidence, and what it must say of it."""

from __future__ import annotations

import math
from pathlib import Path

from astra_chat.research.baselines.document import WITHIN, document, mean_ratio
from astra_chat.research.baselines.evidence import Comparison, Kernel, read

ROOT = Path(__file__).resolve().parents[4]
RECORDED = ROOT / "transcripts/examples/h200/baselines.json"


def test_the_document_in_the_repository_is_made_from_its_evidence() -> None:
    text = document([(RECORDED.name, read(RECORDED))])
    assert (ROOT / "docs/research/baselines.md").read_text().strip() == text.strip()


def test_our_baselines_are_within_5_percent_of_the_real_kernels_with_the_same_flags() -> None:
    found = read(RECORDED).comparisons
    real = [
        c for c in found
        if c.first.name == "sglang" and (c.second.name == "headers" or c.second.tier == "today")
    ]  # fmt: skip
    assert {c.task for c in real} == {"silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"}
    for comparison in real:
        assert len(comparison.cases) >= 14
        for case in comparison.cases:
            assert abs(math.log(case.ratio)) <= math.log(1 + WITHIN), case.case.label


def test_the_best_hold_against_todays_kernels() -> None:
    found = read(RECORDED).comparisons
    today = [c for c in found if c.first.tier == "today" and c.second.name == "best"]
    assert len(today) >= 5
    for comparison in today:
        assert mean_ratio(comparison) >= 1.0
        assert min(case.ratio for case in comparison.cases) >= 0.995


def test_what_failed_is_said() -> None:
    one, other = (Kernel(name=n, tier="sglang", what="", content="") for n in ("sglang", "headers"))
    failed = Comparison(task="t", first=one, second=other, cases=(), failure="does not build: why")
    evidence = read(RECORDED).model_copy(update={"comparisons": (failed,)})
    text = document([("a.json", evidence)])
    assert "not measured" in text and "does not build: why" in text
