"""Results as a prompt shows them: all timed cases, named figures, kernels that ran."""

from __future__ import annotations

from astra_chat.tools.evaluation import CaseLaunches, ErrorNorm, Evaluation, Evidence
from astra_chat.tools.profiling.metrics import (
    DRAM_READ,
    DRAM_WRITE,
    INSTRUCTIONS,
    LANES,
    LEFT,
    LOAD_BYTES,
    LOAD_SECTORS,
    LOADS,
    MACHINE_PATH,
    OCCUPANCY_LIMIT,
    OVER_LEAST,
    PTX_PATH,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    WAVES,
    split_metrics,
)
from astra_chat.tools.profiling.profile import unprofiled
from astra_chat.tools.report.results_text import (
    LONGEST_TEXT,
    MOST_CASES,
    MOST_LINES,
    cases_list,
    judge_report,
    launched,
    metrics_text,
    source_rows,
    times_text,
    used,
)
from astra_chat.tools.types import Metric, Profile, SourceLine, Timed
from tests.chat_samples import CASE, VECTOR, WRONG_OUTCOME, check_record, evaluation, timed

OTHER = CASE.model_copy(update={"dims": {"rows": 1, "d": 128}})
PARTS_US = {"fixed": 0.5, "block_start": 0.1, "waits": 0.3, "instructions": 0.2, "bytes": 0.4}
SPLIT = split_metrics(PARTS_US, 1.0)


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


def test_a_case_without_counters_is_said_to_have_none() -> None:
    one = two_cases()
    why = "no counters: no libcupti; no ncu"
    profiles = [unprofiled(time, why) for time in one.cases]
    told = one.model_copy(update={"profile": profiles[0], "other_profiles": (profiles[1],)})
    rows = times_text(with_launches(""), told).splitlines()
    assert "bottleneck | not profiled in all cases" in rows and rows[-1] == (
        "not profiled, case 1: no counters: no libcupti"
    )
    assert metrics_text(told) == ""


def with_launches(line: str) -> Evaluation:
    plan = CaseLaunches(case=CASE, launches=line, plan_sha256="0")
    found = Evidence(judge_sha256="0", cubin_sha256="0", plans=(plan,))
    return evaluation(VECTOR, two_cases()).model_copy(update={"evidence": found})


def rows_of(text: str) -> dict[str, list[str]]:
    return {label: cells for label, *cells in (row.split(" | ") for row in text.splitlines())}


def test_every_timed_case_has_a_column_with_parts_and_bottleneck() -> None:
    rows = rows_of(times_text(with_launches("kernel grid 4x1x1 block 1\x1b[31m"), two_cases()))
    assert rows["case"] == ["1", "2"] and rows["ratio"] == ["1.50 in all cases"]
    assert rows["estimated us"] == ["1.33", "1.50"]
    assert [rows[name] for name in TIME_PARTS.values()] == [
        [f"{us} in all cases"] for us in ("0.50", "0.10", "0.30", "0.20", "0.40")
    ]
    assert rows["time_left"] == ["0.50 in all cases"] and rows["bottleneck"] == ["latency", "dram"]
    assert rows["launches"] == ["kernel grid 4 block 1\\x1b[31m", "-"], (
        "of one nothing is on record"
    )


def test_each_bottleneck_is_a_sentence_about_the_case_where_most_is_left() -> None:
    both = two_cases()
    text = times_text(evaluation(VECTOR, both), both)
    assert text.endswith("latency, case 1: few bytes are in flight\ndram, case 2: bytes")
    alike = both.model_copy(
        update={
            "other_profiles": (both.other_profiles[0].model_copy(update={"bottleneck": "latency"}),)
        }
    )
    assert times_text(evaluation(VECTOR, alike), alike).count("latency, case") == 1


def test_what_all_further_plans_can_gain_is_weighted_over_the_cases() -> None:
    both = two_cases()  # 0.5 of 1.33 us and 0.5 of 1.5 us are left
    line = "with time_left 0 in every case: 1.549x this candidate's speed, according to the model"
    assert line in times_text(evaluation(VECTOR, both), both).splitlines()
    heavier = both.cases[1].model_copy(update={"weight": 3.0})
    more = both.model_copy(update={"cases": (both.cases[0], heavier)})
    assert "case: 1.524x" in times_text(evaluation(VECTOR, more), more)
    unweighted = tuple(case.model_copy(update={"weight": 0.0}) for case in both.cases)
    none = both.model_copy(update={"cases": unweighted})
    assert line in times_text(evaluation(VECTOR, none), none).splitlines()
    alone = both.model_copy(update={"other_profiles": ()})
    assert "in every case" not in times_text(evaluation(VECTOR, alone), alone)


def with_floor(reachable_us: float) -> Timed:
    """The second case's time is 1.5 us, in parts and in all."""
    both = two_cases()
    (other,) = both.other_profiles
    metrics = (*other.metrics[: -len(SPLIT)], *split_metrics(PARTS_US, reachable_us))
    profile = other.model_copy(update={"metrics": metrics})
    return both.model_copy(update={"other_profiles": (profile,)})


def test_an_estimate_below_the_floor_is_not_to_be_built_on() -> None:
    told = (
        "case 2 is below time_reachable: either the estimate or the floor is wrong there, so"
        " rely on neither"
    )
    for reachable_us, is_told in ((1.0, False), (1.52, False), (1.6, True)):
        found = with_floor(reachable_us)
        assert (told in times_text(evaluation(VECTOR, found), found).splitlines()) == is_told


def launching(first: str, second: str) -> Evaluation:
    plans = tuple(
        CaseLaunches(case=case, launches=text, plan_sha256="0")
        for case, text in ((CASE, first), (OTHER, second))
    )
    found = Evidence(judge_sha256="0", cubin_sha256="0", plans=plans)
    return evaluation(VECTOR, two_cases()).model_copy(update={"evidence": found})


def test_launches_of_one_kernel_are_told_in_rows() -> None:
    alike = launching("silu<__half> grid 4x2x1 block 64x1x1", "silu<float> grid 4x2x1 block 32x1x1")
    rows = rows_of(times_text(alike, two_cases()))
    assert rows["launches silu"] == ["<__half>", "<float>"]
    assert rows["grid"] == ["4x2 in all cases"] and rows["block"] == ["64", "32"]
    plain = launching("silu grid 4x1x1 block 64x1x1", "silu grid 1x1x1 block 64x1x1 shared 8")
    rows = rows_of(times_text(plain, two_cases()))
    assert rows["grid of silu"] == ["4", "1"] and rows["block"] == ["64", "64 shared 8"]
    several = launching("a grid 1 block 1; b<int> grid 2 block 1", "2 x a grid 1 block 1")
    assert len(rows_of(times_text(several, two_cases()))["launches"]) == 2
    assert launched(several) == {"a", "b"} and launched(alike) == {"silu"}
    assert launched(evaluation(VECTOR, two_cases())) == set()


def test_in_short_there_is_what_is_left_and_the_bottleneck() -> None:
    text = times_text(with_launches("kernel grid 4 block 1"), two_cases(), short=True)
    assert list(rows_of(text))[:4] == ["case", "estimated us", "time_left", "bottleneck"]
    assert "grid" not in text


def test_an_old_profile_of_one_case_still_reads() -> None:
    text = times_text(evaluation(VECTOR, timed(1.5)), timed(1.5))
    assert rows_of(text)["% of limit"] == ["75"] and rows_of(text)["bottleneck"] == ["latency"]
    assert cases_list(timed(1.5)) == f"case 1: {CASE.named}, weight 1"


def test_cases_are_listed_once_with_weight_and_floor() -> None:
    listed = f"case 1: {CASE.named}, weight 1, time_reachable 1.00 us\ncase 2: {OTHER.named}, "
    assert cases_list(two_cases()).startswith(listed)
    found = evaluation(VECTOR, two_cases())
    assert listed in judge_report(found) and listed not in judge_report(found, listed=True)


def test_precision_is_told_beside_what_is_tolerated() -> None:
    found = evaluation(VECTOR, two_cases())
    assert "\nprecision: the worst result uses 10% of its tolerance\n" in judge_report(found)
    error = ErrorNorm(
        case=CASE, argument="out", candidate_ulps=0.3, baseline_ulps=0.5, limit_ulps=1.0
    )
    check = check_record(worst_error=error)
    told = judge_report(found.model_copy(update={"check": check}))
    assert "tolerance, rms error at 30% of its limit (the baseline's at 50%)\n" in told


def with_metrics(*by_case: dict[str, float]) -> Timed:
    """Two cases with these metrics."""
    both = two_cases()
    made = [
        tuple(Metric(name=n, value=v, unit="", words="") for n, v in one.items()) for one in by_case
    ]
    (other,) = both.other_profiles
    return both.model_copy(
        update={
            "profile": both.profile.model_copy(update={"metrics": made[0]}),
            "other_profiles": (other.model_copy(update={"metrics": made[1]}),),
        }
    )


def test_metrics_have_a_row_each_and_a_column_for_each_case() -> None:
    text = metrics_text(with_metrics({"a": 1, "b": 2.5, "c": 0, TURNS: 1}, {"a": 1, "b": 3}))
    assert text.splitlines() == ["metric of case | 1 | 2", "a | 1 in all cases", "b | 2.5 | 3"]
    assert "time_" not in metrics_text(two_cases())
    assert metrics_text(with_metrics({}, {})) == ""


def test_what_says_nothing_is_left_out() -> None:
    units = {
        f"machine_instructions_{u}": v
        for u, v in (("alu", 4), ("fma", 3), ("shared", 2), ("shuffle", 1))
    }
    few = metrics_text(with_metrics(units, units))
    assert "machine_instructions_fma | 3 in all cases" in few and "shared" not in few
    loads = {
        LOADS: 9.0,
        LOAD_BYTES: 512.0,
        LOAD_SECTORS: 16.0,
        OCCUPANCY_LIMIT: 100.0,
        WARPS_HELD: 8.0,
        LANES: 96.0,
    }
    assert metrics_text(with_metrics(loads, loads)).splitlines()[1:] == [
        f"{WARPS_HELD} | 8 in all cases"
    ]
    narrow = {**loads, LOAD_BYTES: 128.0, LOAD_SECTORS: 4.0}
    assert f"{LOAD_BYTES} | 128 in all cases" in metrics_text(with_metrics(narrow, narrow))
    wasted = metrics_text(with_metrics(loads, {**loads, LOAD_SECTORS: 32.0}))
    assert f"{LOAD_SECTORS} | 16 | 32" in wasted
    assert f"{LANES} | 96 | 50" in metrics_text(with_metrics(loads, {**loads, LANES: 50.0}))
    assert metrics_text(with_metrics({LOADS: 9.0}, {LOADS: 8.0})).endswith(f"{LOADS} | 9 | 8")


def test_bytes_and_waves_are_shown_where_they_say_something() -> None:
    least = {DRAM_READ: 64.0, DRAM_WRITE: 32.0, OVER_LEAST: 1.0, WAVES: 0.5, WARPS_HELD: 8.0}
    assert metrics_text(with_metrics(least, least)).splitlines()[1:] == [
        f"{WARPS_HELD} | 8 in all cases"
    ]
    more = metrics_text(with_metrics(least, {**least, OVER_LEAST: 1.5, WAVES: 2.0}))
    assert f"{DRAM_READ} | 64 in all cases" in more and f"{OVER_LEAST} | 1 | 1.5" in more
    assert f"{WAVES} | 0.5 | 2" in more


def test_of_the_chain_the_largest_units_are_shown_in_the_place_of_counts() -> None:
    chain = {
        f"chain_cycles_{unit}": float(n) for n, unit in enumerate(("mov", "alu", "xu", "misc"), 1)
    }
    counts = {INSTRUCTIONS: 99.0, "machine_instructions_alu": 9.0, PTX_PATH: 5.0, MACHINE_PATH: 6.0}
    both = with_metrics({**chain, **counts}, {**chain, **counts})
    assert rows_of(metrics_text(both)).keys() == {
        "metric of case",
        "chain_cycles_alu",
        "chain_cycles_xu",
        "chain_cycles_misc",
        MACHINE_PATH,
    }
    busy = both.profile.model_copy(update={"bottleneck": "issue"})
    assert f"{INSTRUCTIONS} | 99" in metrics_text(both.model_copy(update={"profile": busy}))


def test_of_many_cases_those_where_most_is_left_have_metrics() -> None:
    one = two_cases()
    cases = [
        CASE.model_copy(update={"dims": {"rows": n, "d": 64}}) for n in range(1, MOST_CASES + 4)
    ]
    profiles = [
        one.profile.model_copy(
            update={
                "case": case,
                "metrics": (
                    Metric(name=LEFT, value=n / 100, unit="us", words=""),
                    Metric(name="a", value=n, unit="", words=""),
                ),
            }
        )
        for n, case in enumerate(cases)
    ]
    times = [one.cases[0].model_copy(update={"case": case}) for case in cases]
    many = one.model_copy(
        update={"cases": times, "profile": profiles[0], "other_profiles": tuple(profiles[1:])}
    )
    head, row = metrics_text(many).splitlines()
    shown = range(4, MOST_CASES + 4)
    assert head == f"metric of case | {' | '.join(map(str, shown))}"
    assert row == f"a | {' | '.join(str(number - 1) for number in shown)}"


def test_a_kernel_that_no_call_launches_is_named_before_the_confirmation() -> None:
    record = check_record(never_launched=("spare<float>",))
    found = with_launches("kernel grid 4x1x1 block 256x1x1").model_copy(update={"check": record})
    text = judge_report(found)
    assert "the baseline has no such machine code: spare<float>; if no call" in text
    assert "will be refused" in text and "no call of the check launched" not in judge_report(
        found.model_copy(update={"check": check_record()})
    )


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


def line(number: int, cycles: float, rounds: float = 0, *calls: int, text: str = "x") -> SourceLine:
    return SourceLine(line=number, calls=calls, text=text, chain_cycles=cycles, load_rounds=rounds)


def with_lines(*lines: SourceLine) -> Profile:
    return timed(1.5).profile.model_copy(update={"lines": lines})


def test_rows_stand_in_the_order_in_which_the_kernel_runs_them() -> None:
    one = with_lines(line(4, 30, 1, 12), line(14, 50), line(4, 20, 1, 16))
    other = with_lines(line(14, 60))
    assert source_rows([one, other]) == [
        ("chain_cycles of line 4, inlined at 12 `x`", ["30", "0"]),
        ("chain_cycles of line 14 `x`", ["50", "60"]),
        ("chain_cycles of line 4, inlined at 16 `x`", ["20", "0"]),
        ("load_rounds of line 4, inlined at 12 `x`", ["1", "0"]),
        ("load_rounds of line 4, inlined at 16 `x`", ["1", "0"]),
    ]


def test_where_a_load_is_waited_for_stands_beside_its_rounds() -> None:
    load = line(4, 30, 2).model_copy(update={"waited_at": "line 9, inlined at 20"})
    fewer = line(4, 30, 1).model_copy(update={"waited_at": "line 7"})
    _, (label, cells) = source_rows([with_lines(load), with_lines(fewer)])
    assert label == "load_rounds of line 4 `x`, waited for at line 9, inlined at 20"
    assert cells == ["2", "1"]


def test_of_many_lines_the_costliest_are_shown_and_long_ones_are_cut() -> None:
    many = with_lines(*(line(number, number, text="y" * 99) for number in range(1, 21)))
    *rows, rest = source_rows([many, with_lines(line(2, 5)), with_lines()])
    assert [cells for _, cells in rows] == [[str(n), "0", "-"] for n in range(21 - MOST_LINES, 21)]
    others = 20 - MOST_LINES
    assert rest == (
        f"chain_cycles of {others} other lines in lines 1 to {others}",
        [str(sum(range(1, others + 1))), "5", "-"],
    )
    assert rows[0][0].partition("`")[2] == "y" * (LONGEST_TEXT - 3) + "...`"


def test_the_other_lines_are_summed_by_region() -> None:
    """36 % of a chain in one row says nothing about where it is."""
    costly = [line(100 + number, 90) for number in range(MOST_LINES)]
    cheap = [line(number, 2) for number in (10, 11, 12, 60, 62, 300)]
    rows = source_rows([with_lines(*costly, *cheap)])[MOST_LINES:]
    assert rows == [
        ("chain_cycles of 3 other lines in lines 10 to 12", ["6"]),
        ("chain_cycles of 2 other lines in lines 60 to 62", ["4"]),
        ("chain_cycles of 1 other line in line 300", ["2"]),
    ]


def test_they_stand_among_the_metrics() -> None:
    one = timed(1.5)
    known = one.model_copy(update={"profile": with_lines(line(3, 7, text="a `b`\x1b[31m"))})
    (row,) = [row for row in metrics_text(known).splitlines() if row.startswith("chain_cycles of")]
    assert row.startswith("chain_cycles of line 3 `a") and row.endswith("| 7") and "\x1b" not in row
    assert "chain_cycles of" not in metrics_text(one)
