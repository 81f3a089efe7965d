"""Results as a prompt shows them: all timed cases, named figures, kernels that ran."""

from __future__ import annotations

from astra_chat.agents.results_text import cases_text, judge_report, metrics_text, used
from astra_chat.tools.evaluation import CaseLaunches, Evaluation, Evidence
from astra_chat.tools.profiling.metrics import split_metrics
from astra_chat.tools.types import Metric, Timed
from tests.chat_samples import CASE, VECTOR, WRONG_OUTCOME, evaluation, timed

OTHER = CASE.model_copy(update={"dims": {"rows": 1, "d": 128}})
SPLIT = split_metrics(
    {"fixed": 0.5, "block_start": 0.1, "waits": 0.3, "instructions": 0.2, "bytes": 0.4}, 1.0
)


def two_cases() -> Timed:
    one = timed(1.5)
    profile = one.profile.model_copy(update={"metrics": (*one.profile.metrics, *SPLIT)})
    other = profile.model_copy(
        update={"case": OTHER, "bottleneck": "dram", "why": "bytes; 2 waves"}
    )
    time = one.cases[0].model_copy(update={"case": OTHER, "median_us": 1.5})
    return one.model_copy(
        update={"cases": (one.cases[0], time), "profile": profile, "other_profiles": (other,)}
    )


def with_launches(line: str) -> Evaluation:
    plan = CaseLaunches(case=CASE, launches=line, plan_sha256="0")
    found = Evidence(judge_sha256="0", cubin_sha256="0", plans=(plan,))
    return evaluation(VECTOR, two_cases()).model_copy(update={"evidence": found})


def test_every_timed_case_has_a_line_with_parts_floor_and_bottleneck() -> None:
    text = cases_text(with_launches("kernel grid 4x1x1 block 256x1x1\x1b[31m"), two_cases())
    head, first, second = text.splitlines()
    assert head.startswith("estimated us = time_fixed + ") and "time_left" in head
    parts = "0.50 + 0.10 + 0.30 + 0.20 + 0.40; reachable 1.00, left 0.50; 1.50x"
    assert first.startswith(f"- {CASE.named}, weight 1: 1.33 = {parts}; latency: few")
    assert first.endswith("kernel grid 4 block 256\\x1b[31m")
    assert "dram: bytes" in second and "2 waves" not in second


def test_an_old_profile_of_one_case_still_reads() -> None:
    (line,) = cases_text(evaluation(VECTOR, timed(1.5)), timed(1.5)).splitlines()
    assert "75 % of the limit; 1.50x" in line


def test_metrics_in_the_table_are_not_told_twice() -> None:
    text = metrics_text(two_cases().profile)
    assert "global_load_requests 100" in text and "time_" not in text
    units = [Metric(name=f"machine_instructions_{u}", value=v, unit="inst", words="of these")
             for u, v in (("alu", 4), ("fma", 3), ("shared", 2), ("shuffle", 1))]  # fmt: skip
    few = metrics_text(two_cases().profile.model_copy(update={"metrics": tuple(units)}))
    assert "machine_instructions_fma 3" in few and "shared" not in few


def test_only_kernels_that_ran_are_named() -> None:
    ran = with_launches("kernel grid 4x1x1 block 256x1x1")
    (one,) = ran.resources
    more = ran.model_copy(
        update={"resources": (one, one.model_copy(update={"kernel": "never_launched"}))}
    )
    assert [one.kernel for one in used(more)] == ["kernel"]
    assert "never_launched" not in judge_report(more) and "kernel 16 registers" in judge_report(
        more
    )
    unknown = more.model_copy(update={"evidence": None})
    assert len(used(unknown)) == 2


def test_a_failure_has_no_cases() -> None:
    text = judge_report(evaluation(VECTOR, WRONG_OUTCOME))
    assert "never written" in text and "weight" not in text
