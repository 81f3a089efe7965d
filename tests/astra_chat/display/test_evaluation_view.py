"""Tables of single evaluations: names stand whole, figures with their basis."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import RenderableType

from astra_chat.display.console import console
from astra_chat.display.evaluation_view import (
    case_table,
    evaluation_text,
    evidence_lines,
    outcome_text,
    profile_text,
    step_words,
)
from astra_chat.tools.evaluation import Step
from astra_chat.tools.types import AnyTime, Case, Correct, Device, MeasuredTime, Metric, SourceLine
from astra_vgpu.ground.gpu_specs import spec
from tests.chat_samples import VECTOR, WRONG_OUTCOME, evaluation, timed
from tests.time_samples import measured_time

LONG = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"


def measured(**more: Any) -> MeasuredTime:
    return measured_time(timed(1.9).cases[0].case, **more)


def shown(renderable: RenderableType, width: int = 120, *, terminal: bool = False) -> str:
    out = console(io.StringIO())
    out.width = width
    out._force_terminal = terminal
    out.print(renderable)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def test_names_of_metrics_stand_whole() -> None:
    profile = timed(1.9).profile
    words = "sectors that each request of a warp to global memory touches, of 32 bytes each"
    metrics = [
        Metric(name=LONG.replace("ld", kind), value=16.0, unit="sector", words=words)
        for kind in ("ld", "st")
    ]
    profile = profile.model_copy(update={"metrics": tuple(metrics)})
    text = shown(profile_text(profile))
    assert LONG in text and LONG.replace("ld", "st") in text and "…" not in text
    beside = [line for line in text.splitlines() if LONG in line]
    assert "16  sector" in beside[0]
    narrow = shown(profile_text(profile), width=80)
    assert "16  sector  sectors that each" in narrow and "…" not in narrow
    assert LONG in narrow.replace("\n", "").replace(" ", "")
    assert "estimated profile of" in text and "bottleneck (estimated): latency" in text


def test_a_profile_without_figures_is_words() -> None:
    text = shown(profile_text(timed(1.9).profile.model_copy(update={"metrics": ()})))
    assert "estimated profile of" in text and "bottleneck (estimated): latency" in text


def test_what_each_line_costs_stands_below_the_metrics() -> None:
    lines = [
        SourceLine(
            line=4, calls=(9,), text="x[red]y", chain_cycles=30, load_rounds=1, waited_at="line 10"
        ),
        SourceLine(line=10, text="z", chain_cycles=7, load_rounds=0),
    ]
    profile = timed(1.9).profile.model_copy(update={"lines": tuple(lines)})
    rows = [" ".join(row.split()) for row in shown(profile_text(profile)).splitlines()]
    assert (
        "30 1 line 4, inlined at 9: x[red]y (waited for at line 10)" in rows
        and "7 line 10: z" in rows
    )
    assert "chain cycles" not in shown(profile_text(timed(1.9).profile))


def test_an_estimate_says_so_in_every_part() -> None:
    found = evaluation(VECTOR, timed(1.9))
    text = shown(evaluation_text(found))
    head, units, *_ = text[text.index("L2 cold") :].splitlines()[1:]
    assert head.split()[:2] == ["estimated", "estimated"] and "baseline us" in units
    assert "1.71 to 2.09" in text and "measured" not in text
    least = next(line for line in evidence_lines(found) if line.startswith("slowest case"))
    assert "estimated 1.900x (1.710 to 2.090)" in least


def test_what_was_not_timed_has_no_evidence_and_no_table() -> None:
    found = evaluation(VECTOR, WRONG_OUTCOME)
    assert evidence_lines(found) == [] and "baseline us" not in shown(evaluation_text(found))


def test_a_second_clock_stands_under_the_table() -> None:
    time = measured(profiled_us=2.5, launches=1, baseline_profiled_us=5, baseline_launches=1)
    found = evaluation(VECTOR, timed(1.9).model_copy(update={"cases": (time,)}))
    text = shown(evaluation_text(found))
    assert "judged 2.00 us, 0.80 of Nsight Compute's 2.50 us; baseline 4.00 of 5.00 us" in text


def test_what_the_gpu_said_and_warm_times_stand_with_measured_ones() -> None:
    said = {
        "sm_clock_mhz": (1980, 1965),
        "memory_clock_mhz": (3201, 3201),
        "temperature_c": (31, 44),
        "power_w": (120, 480),
        "throttle_reasons": (0, 4),
    }
    cases = (
        measured(baseline_warm_us=1.5, warm_us=1.25, gpu=said, note="spaced"),
        measured(note="2 other processes used the GPU at the same time"),
    )
    found = evaluation(VECTOR, timed(1.9).model_copy(update={"cases": cases}))
    text = shown(evaluation_text(found))
    assert "1.50 / 1.25" in text and "8.00 / 6.00" in text and " - " in text
    assert "SM 1,965 to 1,980 MHz, memory 3,201 MHz, 31 to 44 C, 120 to 480 W" in text
    assert "clock event reasons (NVML): 0x4" in text
    assert "* spaced" in text and "* 2 other processes used" in text, "every note is shown"
    assert "unconfirmed: the best of several" in text
    confirmed = shown(evaluation_text(found.model_copy(update={"confirms": True})))
    assert "for choosing" not in confirmed


@pytest.mark.parametrize("basis", ["measured", "estimated"])
def test_the_table_of_cases_is_whole_at_80_columns(basis: str) -> None:
    outcome = timed(1.9)
    first: AnyTime = outcome.cases[0]
    if basis == "measured":
        first = measured(baseline_warm_us=12345.67, warm_us=12345.67)
    large = {
        "case": Case(dims={"tokens": 8192, "d": 14336}, dtype="bfloat16"),
        "baseline_us": 12345.67,
        "median_us": 12345.67,
        "ratio_low": 0.912,
        "ratio_high": 1.123,
    }
    cases = (first.model_copy(update=large),)
    found = evaluation(VECTOR, outcome.model_copy(update={"cases": cases}))
    lines = shown(case_table(found), width=80, terminal=True).splitlines()
    row = next(line for line in lines if line.startswith("8192x14336 bfloat16"))
    for figure in ("12345.67  ", "0.91", "to 1.12", f"{first.ratio:.2f}x"):
        assert figure in row, figure
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)


@pytest.mark.parametrize(("key", "told"), [("h200", False), ("b200", True)])
def test_a_gpu_of_a_kind_that_was_never_tried_is_told_of(key: str, told: bool) -> None:
    gpu = spec(key)
    device = Device(kind="cuda", name=gpu.name, arch=gpu.arch, spec=key)
    judged = evaluation(VECTOR, WRONG_OUTCOME).model_copy(update={"device": device})
    assert ("never been tested" in shown(evaluation_text(judged))) is told


def test_a_step_says_what_it_waited_for() -> None:
    assert step_words(Step(name="check", seconds=3.14)) == "check 3.1 s"
    waited = Step(name="time", seconds=3.0, waited_s=1.25, note="again")
    assert step_words(waited) == "time 3.0 s (1.2 s of it waiting for the GPU; again)"


def test_cases_that_were_left_out_are_said() -> None:
    some = Correct(cases=201, hidden=190, worst=0.5, left_out=22)
    said = outcome_text(some).plain
    assert "correct on 201 of 223 cases" in said and "everywhere" not in said
    assert "within the tolerance on all cases that were judged" in said
    assert "everywhere" in outcome_text(some.model_copy(update={"left_out": 0})).plain
