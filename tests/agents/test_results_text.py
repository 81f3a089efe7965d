"""Results as a prompt shows them: all timed cases, named figures, kernels that ran."""

from __future__ import annotations

from astra_chat.agents.results_text import cases_text, judge_report, metrics_text, used
from astra_chat.tools.evaluation import CaseLaunches, Evaluation, Evidence
from astra_chat.tools.profiling.metrics import (
    LANES,
    LEFT,
    LOAD_BYTES,
    LOAD_SECTORS,
    LOADS,
    OCCUPANCY_LIMIT,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    split_metrics,
)
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


def test_every_timed_case_has_a_row_with_parts_floor_and_bottleneck() -> None:
    text = cases_text(with_launches("kernel grid 4x1x1 block 256x1x1\x1b[31m"), two_cases())
    head, first, second = (row.split(" | ") for row in text.splitlines())
    assert head[4:12] == ["estimated us", *TIME_PARTS.values(), "time_reachable", "time_left"]
    assert first[:5] == ["1", CASE.named, "1", "1.50x", "1.33"]
    assert first[5:12] == ["0.50", "0.10", "0.30", "0.20", "0.40", "1.00", "0.50"]
    assert first[12].startswith("latency: few") and first[13] == "kernel grid 4 block 256\\x1b[31m"
    assert second[12] == "dram: bytes" and len(second) == len(first) == len(head)


def test_in_short_there_is_what_is_left_and_the_bottleneck() -> None:
    text = cases_text(with_launches("kernel grid 4 block 1"), two_cases(), short=True)
    head, first, _ = (row.split(" | ") for row in text.splitlines())
    assert head[2:] == ["weight", "estimated us", "time_left", "bottleneck"]
    assert len(first) == len(head)


def test_an_old_profile_of_one_case_still_reads() -> None:
    head, row = cases_text(evaluation(VECTOR, timed(1.5)), timed(1.5)).splitlines()
    assert "% of limit" in head and "| 1.50x | 1.33 | 75 | latency" in row


def with_metrics(*by_case: dict[str, float]) -> Timed:
    """Two cases with these metrics."""
    both = two_cases()
    made = [tuple(Metric(name=n, value=v, unit="", words="") for n, v in one.items())
            for one in by_case]  # fmt: skip
    (other,) = both.other_profiles
    return both.model_copy(
        update={
            "profile": both.profile.model_copy(update={"metrics": made[0]}),
            "other_profiles": (other.model_copy(update={"metrics": made[1]}),),
        }
    )


def test_metrics_have_a_row_each_and_a_column_for_each_case() -> None:
    text = metrics_text(with_metrics({"a": 1, "b": 2.5, "c": 0, TURNS: 1}, {"a": 1, "b": 3}))
    assert text.splitlines() == ["metric of case | 1 | 2", "a | 1 in all", "b | 2.5 | 3"]
    assert "time_" not in metrics_text(two_cases())
    assert metrics_text(with_metrics({}, {})) == ""


def test_what_says_nothing_is_left_out() -> None:
    units = {f"machine_instructions_{u}": v for u, v in
             (("alu", 4), ("fma", 3), ("shared", 2), ("shuffle", 1))}  # fmt: skip
    few = metrics_text(with_metrics(units, units))
    assert "machine_instructions_fma | 3 in all" in few and "shared" not in few
    loads = {LOADS: 9.0, LOAD_BYTES: 512.0, LOAD_SECTORS: 16.0, OCCUPANCY_LIMIT: 100.0,
             WARPS_HELD: 8.0, LANES: 96.0}  # fmt: skip
    assert metrics_text(with_metrics(loads, loads)).splitlines()[1:] == [
        f"{LOAD_BYTES} | 512 in all", f"{WARPS_HELD} | 8 in all",
    ]  # fmt: skip
    wasted = metrics_text(with_metrics(loads, {**loads, LOAD_SECTORS: 32.0}))
    assert f"{LOAD_SECTORS} | 16 | 32" in wasted
    assert f"{LANES} | 96 | 50" in metrics_text(with_metrics(loads, {**loads, LANES: 50.0}))
    assert metrics_text(with_metrics({LOADS: 9.0}, {LOADS: 8.0})).endswith(f"{LOADS} | 9 | 8")


def test_of_many_cases_those_where_most_is_left_have_metrics() -> None:
    one = two_cases()
    cases = [CASE.model_copy(update={"dims": {"rows": n, "d": 64}}) for n in range(1, 12)]
    profiles = [one.profile.model_copy(update={
        "case": case, "metrics": (Metric(name=LEFT, value=n / 100, unit="us", words=""),
                                  Metric(name="a", value=n, unit="", words=""))})
        for n, case in enumerate(cases)]  # fmt: skip
    times = [one.cases[0].model_copy(update={"case": case}) for case in cases]
    many = one.model_copy(
        update={"cases": times, "profile": profiles[0], "other_profiles": tuple(profiles[1:])}
    )
    head, row = metrics_text(many).splitlines()
    assert head == "metric of case | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11"
    assert row == "a | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10"


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
    half, full = "_Z6kernelI6__halfEvPT_", "_Z6kernelIfEvPT_"
    both = more.model_copy(
        update={"resources": tuple(one.model_copy(update={"kernel": k}) for k in (half, full))}
    )
    assert len(used(both)) == 2, "an old record names no instantiation"
    plan = CaseLaunches(case=CASE, launches="2 x kernel<float> grid 4x1x1", plan_sha256="0")
    found = Evidence(judge_sha256="0", cubin_sha256="0", plans=(plan,))
    assert [one.kernel for one in used(both.model_copy(update={"evidence": found}))] == [full]
    unknown = more.model_copy(update={"evidence": None})
    assert len(used(unknown)) == 2


def test_a_failure_has_no_cases() -> None:
    text = judge_report(evaluation(VECTOR, WRONG_OUTCOME))
    assert "never written" in text and "weight" not in text
