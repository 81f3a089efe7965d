"""docs/research/baselines.md: made from the recorded evidence, and what it must say of it."""

from __future__ import annotations

import math
from pathlib import Path

from lab.baselines.document import WITHIN, document, mean_ratio
from lab.baselines.evidence import Comparison, Kernel, read
from tests.recorded_files import EXAMPLES

ROOT = Path(__file__).resolve().parents[3]
RECORDED = EXAMPLES / "h200/baselines.json"
DECODE = EXAMPLES / "h200/baselines-decode.json"
ON_H100 = EXAMPLES / "h100/baselines-h100.json"


def test_our_baselines_are_within_5_percent_of_the_real_kernels_with_the_same_flags() -> None:
    found = read(RECORDED).comparisons
    real = [
        c
        for c in found
        if c.first.name == "sglang" and (c.second.name == "headers" or c.second.tier == "today")
    ]
    assert {c.task for c in real} == {"silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"}
    for comparison in real:
        assert len(comparison.cases) >= 14
        for case in comparison.cases:
            assert abs(math.log(case.ratio)) <= math.log(1 + WITHIN), case.case.label


def test_gelu_is_within_5_percent_of_the_header_that_it_stands_for() -> None:
    (comparison,) = [
        c
        for c in read(DECODE).comparisons
        if (c.task, c.second.name, c.second.tier) == ("gelu_tanh_and_mul", "headers", "sglang")
    ]
    assert len(comparison.cases) == 13
    assert all(abs(case.ratio - 1) <= WITHIN for case in comparison.cases)


def test_the_best_hold_against_todays_kernels() -> None:
    found = read(RECORDED).comparisons
    today = [c for c in found if c.first.tier == "today" and c.second.name == "best"]
    assert len(today) >= 5
    for comparison in today:
        assert mean_ratio(comparison) >= 1.0
        assert min(case.ratio for case in comparison.cases) >= 0.995


def test_two_devices_have_sections_of_their_own() -> None:
    recorded = read(RECORDED)
    device = recorded.device.model_copy(update={"name": "NVIDIA H100"})
    text = document([("a", recorded), ("b", recorded.model_copy(update={"device": device}))])
    for task in ("silu_and_mul", "merge_state_v2"):
        for name in ("NVIDIA H200", "NVIDIA H100"):
            assert text.count(f"## {task}, on {name}\n") == 1
    assert "## silu_and_mul\n" in document([("a", recorded)])


def test_what_ours_stands_for_is_said_and_whether_it_has_changed() -> None:
    recorded = read(ON_H100)
    text = document([(ON_H100.name, recorded)])
    section = text.partition("## rmsnorm\n")[2].partition("\n## ")[0]
    assert "Our baseline reproduces SGLang's compiled kernel library" in section
    assert "earlier version" not in section
    old = [c for c in recorded.comparisons if (c.task, c.first.name) == ("rmsnorm", "sglang")]
    first = old[0].first.model_copy(update={"content": "0123456789ab"})
    changed = [c.model_copy(update={"first": first}) for c in old]
    text = document([("a", recorded.model_copy(update={"comparisons": tuple(changed)}))])
    now = old[0].first.content
    assert f"An earlier version, `0123456789ab`, was measured; today's is `{now}`." in text


def test_kernels_that_miss_the_contract_are_told_apart() -> None:
    for cases, row in ((True, "| case | library, sglang |"), (False, "- over library, sglang: ")):
        text = document([(ON_H100.name, read(ON_H100))], cases)
        section = text.partition("## per_token_quant_fp8\n")[2].partition("\n## ")[0]
        assert "do not meet the contract, divided by ours" in section and row in section


def test_what_failed_is_said() -> None:
    one, other = (Kernel(name=n, tier="sglang", what="", content="") for n in ("sglang", "headers"))
    failed = Comparison(task="t", first=one, second=other, cases=(), failure="does not build: why")
    evidence = read(RECORDED).model_copy(update={"comparisons": (failed,)})
    text = document([("a.json", evidence)])
    assert "not measured" in text and "does not build: why" in text
