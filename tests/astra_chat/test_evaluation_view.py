"""Tables of single evaluations: names stand whole, figures with their basis."""

from __future__ import annotations

import io

from rich.console import RenderableType

from astra_chat.console import console
from astra_chat.evaluation_view import evaluation_text, evidence_lines, profile_text
from astra_chat.tools.types import MeasuredTime, Metric
from tests.chat_samples import VECTOR, WRONG_OUTCOME, evaluation, timed

LONG = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"


def shown(renderable: RenderableType, width: int = 120) -> str:
    out = console(io.StringIO())
    out.width = width
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
    text = shown(profile_text(profile.model_copy(update={"metrics": tuple(metrics)})))
    assert LONG in text and LONG.replace("ld", "st") in text and "…" not in text
    assert "estimated profile of" in text and "bottleneck (estimated): latency" in text


def test_a_profile_without_figures_is_words() -> None:
    text = shown(profile_text(timed(1.9).profile.model_copy(update={"metrics": ()})))
    assert "estimated profile of" in text and "bottleneck (estimated): latency" in text


def test_an_estimate_says_so_in_every_part() -> None:
    found = evaluation(VECTOR, timed(1.9))
    text = shown(evaluation_text(found))
    assert "estimated baseline us" in text and "1.71 to 2.09" in text and "measured" not in text
    least = next(line for line in evidence_lines(found) if line.startswith("least case"))
    assert "estimated 1.900x (1.710 to 2.090)" in least


def test_what_was_not_timed_has_no_evidence_and_no_table() -> None:
    found = evaluation(VECTOR, WRONG_OUTCOME)
    assert evidence_lines(found) == [] and "estimated baseline us" not in shown(
        evaluation_text(found)
    )


def test_a_second_clock_stands_under_the_table() -> None:
    estimated = timed(1.9)
    case = estimated.cases[0].case
    time = MeasuredTime(
        case=case, weight=1, baseline_us=4, median_us=2, ratio=2, ratio_low=2, ratio_high=2,
        limit_us=1, percent_of_limit=50, baseline_event_us=8, event_us=6, sm_clock_mhz=1980,
        profiled_us=2.5, launches=1, baseline_profiled_us=5, baseline_launches=1,
    )  # fmt: skip
    found = evaluation(VECTOR, estimated.model_copy(update={"cases": (time,)}))
    text = shown(evaluation_text(found))
    assert "judged 2.00 us, 0.80 of Nsight Compute's 2.50 us; baseline 4.00 of 5.00 us" in text
