"""Results of the judge as a prompt shows them: a table with a column for each timed case and rows
under names that a plan can cite. What the names mean is in metrics.md beside this file. Lines of
the source on which the longest warp waits for results follow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from astra_chat.tools.descriptions import (
    describe,
    describe_resources,
    launches,
    never_launched,
    speed,
)
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.profiling.metrics import (
    BY_UNIT,
    CHAIN_BY_UNIT,
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
    REACHABLE,
    SHARED_WAVEFRONTS_EACH,
    STORE_SECTORS,
    TIME,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    WAVES,
    profile_on,
    telling,
)
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.text import one_line, report
from astra_chat.tools.timing.intervals import mean
from astra_chat.tools.types import AnyTime, Metric, Profile, Resources, SourceLine, Timed
from astra_chat.tools.wording import counted

MOST_UNITS = 2
"""Units whose counts of instructions are shown, at most: those with the largest."""
MOST_CHAIN_UNITS = 3
"""Units whose cycles of the longest chain are shown, at most: those with the largest."""
MOST_CASES = 16
"""Cases whose metrics are shown, at most: of more cases, those where most is left."""
BEST = {
    LANES: (95, 100),
    TURNS: (1, 1),
    SHARED_WAVEFRONTS_EACH: (1, 1),
    OVER_LEAST: (0, 1.01),
    LOAD_BYTES: (512, 512),
    STORE_SECTORS: (16, 16),
}
"""Values that leave nothing to say, from and to; of loads and stores 16 bytes a lane."""
OF_THROUGHPUT = frozenset(("issue", "special_functions", "lsu", "shared", "tensor", "constants"))
"""Bottlenecks to which it matters what all warps execute."""
IN_TABLE = frozenset((*TIME_PARTS.values(), REACHABLE, LEFT, TIME))
FLOOR_TOLERANCE = 0.02
"""Estimates this close below the floor are not told."""
_ALONE = re.compile(r":? (take|takes)? ?\d[\d.]* us alone")
"""A term of the model, which does not add up with the parts."""
_ONES = re.compile(r"(\d)(x1)+\b")
"""Trailing ones of a grid's or a block's size."""
_NAME = re.compile(r"(\w+)(?=<[^<>]*> grid | grid )")
_LAUNCH = re.compile(r"(\w+)(<[^<>]*>)? grid (\S+) block ([^;]+)")
"""A single launch: name, template arguments, grid, block and what follows."""
BAR = " | "
OF_VERDICT = {
    "accepted": "faster than the baseline",
    "tie": "tie with the baseline",
    "slower": "slower than the baseline",
}


def judge_report(evaluation: Evaluation, *, listed: bool = False) -> str:
    """What the judge found about a candidate, as the chat is told it.

    Outcome, precision, resources, and a table with a column for each timed case. `listed`: what
    the numbers of the cases mean stands elsewhere (`cases_list`).
    """
    outcome = evaluation.outcome
    resources = f"resources: {describe_resources(used(evaluation))}"
    trust = [f"trust: {evaluation.trust}"] if evaluation.trust else []
    if not isinstance(outcome, Timed):
        return "\n".join([report(describe(outcome)), *trust, resources])
    verdict = f"correct; {speed(outcome)}: {OF_VERDICT[outcome.verdict]} ({one_line(outcome.why)})"
    cases = "" if listed else cases_list(outcome)
    tables = [cases, times_text(evaluation, outcome), metrics_text(outcome)]
    said = [
        verdict,
        *trust,
        precision(evaluation, outcome),
        resources,
        *never_launched(evaluation.check),
    ]
    return "\n".join(filter(None, [*said, *tables]))


def precision(evaluation: Evaluation, timed: Timed) -> str:
    """How far the results are inside what is tolerated, and how far the baseline's are."""
    error = evaluation.check.worst_error if evaluation.check else None
    text = f"precision: the worst result uses {timed.correct.worst:.0%} of its tolerance"
    if timed.correct.worst == 0:
        text = "precision: every result that has a tolerance equals the oracle's"
    shares = evaluation.check.band_shares if evaluation.check else {}
    if shares:
        inside = ", ".join(f"{share:.1%} of {name}" for name, share in shares.items())
        text += f", near a midpoint {inside}"
    if error is None or error.limit_ulps <= 0:
        return text
    own, its = (x / error.limit_ulps for x in (error.baseline_ulps, error.candidate_ulps))
    return f"{text}, rms error at {its:.0%} of its limit (the baseline's at {own:.0%})"


def used(evaluation: Evaluation) -> tuple[Resources, ...]:
    """Resources of the kernels that ran in timed cases, by instantiation where the launches name
    them; of all kernels where nothing is on record."""
    plans = evaluation.evidence.plans if evaluation.evidence else ()
    told = " ".join(f" {plan.launches}" for plan in plans)
    for arguments in (template_arguments, lambda _: ""):
        names = [
            (one, kernel_name(one.kernel) + arguments(one.kernel)) for one in evaluation.resources
        ]
        if ran := tuple(one for one, name in names if f" {name} grid" in told):
            return ran
    return evaluation.resources


def launched(evaluation: Evaluation) -> set[str]:
    """Names of the kernels that the timed cases launch; none where that is not on record."""
    plans = evaluation.evidence.plans if evaluation.evidence else ()
    return {name for plan in plans for name in _NAME.findall(plan.launches)}


def cases_list(timed: Timed) -> str:
    """The timed cases by their numbers in the tables: the same for all candidates."""
    return "\n".join(
        f"case {number}: {time.case.named}, weight {time.weight:g}{_floor(timed, time)}"
        for number, time in enumerate(timed.cases, 1)
    )


def _floor(timed: Timed, time: AnyTime) -> str:
    profile = profile_on(timed, time.case)
    floor = profile.metric(REACHABLE) if profile else None
    return f", {REACHABLE} {floor.value:.2f} us" if floor else ""


def times_text(evaluation: Evaluation, timed: Timed, *, short: bool = False) -> str:
    """A table of all timed cases; `short`: without what their times are made of."""
    profiles = [profile_on(timed, time.case) for time in timed.cases]
    rows = [_cells("case", [str(number) for number in range(1, len(profiles) + 1)])]
    if not short:
        rows.append(_cells("ratio", [f"{time.ratio:.2f}" for time in timed.cases]))
    rows.append(_cells(f"{timed.basis} us", [f"{time.median_us:.2f}" for time in timed.cases]))
    if timed.memory_share is not None:
        uses = [f"{time.memory.bytes / 1e6:.3g}" if time.memory else "-" for time in timed.cases]
        rows.append(_cells("memory MB", uses))
    if any(metric.name == LEFT for metric in timed.profile.metrics):
        parts = (LEFT,) if short else (*TIME_PARTS.values(), LEFT)
        rows += [_cells(name, [_us(profile, name) for profile in profiles]) for name in parts]
    else:
        shares = [f"{time.percent_of_limit:.0f}" for time in timed.cases]
        rows.append(_cells("% of limit", shares))
    rows.append(_cells("bottleneck", [one.bottleneck if one else "-" for one in profiles]))
    if not short:
        rows += _launched([launches(evaluation, time.case) for time in timed.cases])
    return "\n".join([*rows, *_below_the_floor(timed), *_most_to_gain(timed), *_causes(timed)])


def _below_the_floor(timed: Timed) -> list[str]:
    """Cases whose estimate is better than the model's own best: one of the two is wrong."""
    told = [
        str(number)
        for number, time, profile in _profiled(timed)
        if (floor := profile.metric(REACHABLE))
        and time.median_us < (1 - FLOOR_TOLERANCE) * floor.value
    ]
    if timed.basis != "estimated" or not told:
        return []
    cases = f"case {told[0]} is" if len(told) == 1 else f"cases {', '.join(told)} are"
    return [
        f"{cases} below {REACHABLE}: either the estimate or the floor is wrong there, so rely on"
        " neither"
    ]


def _most_to_gain(timed: Timed) -> list[str]:
    """What a plan could gain if nothing were left above the floor, weighted as the verdict is."""
    told = [(time, profile) for _, time, profile in _profiled(timed) if profile.metric(LEFT)]
    if len(told) < len(timed.cases):
        return []
    gains = [(1 / max(1 - _share_left(*one), 1e-9), one[0].weight) for one in told]
    ratio = mean(gains)
    return [
        f"with {LEFT} 0 in every case: {ratio:.3f}x this candidate's speed, according to the model"
    ]


def _cells(label: str, values: Sequence[str]) -> str:
    """A row; one value where all are equal."""
    same = len(values) > 1 and len(set(values)) == 1
    return BAR.join([label, *([f"{values[0]} in all cases"] if same else values)])


def _us(profile: Profile | None, name: str) -> str:
    metric = profile.metric(name) if profile else None
    return f"{metric.value:.2f}" if metric else "-"


def _launched(texts: Sequence[str]) -> list[str]:
    """What each case launches: of a single kernel its arguments, grid and block in rows."""
    if not any(texts):
        return []
    cells = [_ONES.sub(r"\1", text) for text in texts]
    parts = [match.groups("") for cell in cells if (match := _LAUNCH.fullmatch(cell))]
    names = {name for name, *_ in parts}
    if len(parts) < len(cells) or len(names) != 1:
        return [_cells("launches", [cell or "-" for cell in cells])]
    (name,) = names
    arguments, grids, blocks = ([one[at] for one in parts] for at in (1, 2, 3))
    rows = [(f"launches {name}", arguments)] if any(arguments) else []
    rows += [("grid" if rows else f"grid of {name}", grids), ("block", blocks)]
    return [_cells(label, values) for label, values in rows]


def _causes(timed: Timed) -> list[str]:
    """Each bottleneck as a sentence, about the case where most is left."""
    told: dict[str, str] = {}
    most = sorted(_profiled(timed), key=lambda one: -one[1].weight * _share_left(one[1], one[2]))
    for number, _, profile in most:
        sentence = _ALONE.sub("", one_line(profile.why).partition(";")[0])
        told.setdefault(profile.bottleneck, f"{profile.bottleneck}, case {number}: {sentence}")
    return list(told.values())


def metrics_text(timed: Timed) -> str:
    """A table of the metrics that the table of times has not, and of the source's costliest lines:
    a row each, a column a case."""
    chosen = _most_left(timed)
    tables = [{m.name: m for m in telling(profile.metrics)} for _, _, profile in chosen]
    names = list(dict.fromkeys(name for one in tables for name in one))
    left_out = _left_out(tables, {profile.bottleneck for _, _, profile in chosen})
    rows = [_row(name, [one.get(name) for one in tables]) for name in names if name not in left_out]
    rows += [_cells(*row) for row in source_rows([profile for _, _, profile in chosen])]
    if not any(rows):
        return ""
    head = _cells("metric of case", [str(number) for number, _, _ in chosen])
    return "\n".join([head, *filter(None, rows)])


def _profiled(timed: Timed) -> list[tuple[int, AnyTime, Profile]]:
    """The cases that have a profile, with their numbers."""
    return [
        (number, time, profile)
        for number, time in enumerate(timed.cases, 1)
        if (profile := profile_on(timed, time.case))
    ]


def _most_left(timed: Timed) -> list[tuple[int, AnyTime, Profile]]:
    """Returns the cases to show the metrics of."""
    found = _profiled(timed)
    left = {number: time.weight * _share_left(time, profile) for number, time, profile in found}
    most = sorted(left, key=lambda number: -left[number])[:MOST_CASES]
    return [one for one in found if one[0] in most]


def _share_left(time: AnyTime, profile: Profile) -> float:
    above = profile.metric(LEFT)
    return above.value / time.median_us if above else 1 - time.percent_of_limit / 100


Table = dict[str, Metric]
"""The metrics of a case by name."""


def _left_out(tables: Sequence[Table], bottlenecks: set[str]) -> set[str]:
    """Returns the names of metrics that are not shown: what the other table has, units that do
    little, sectors and bytes where no more than must be are moved, and what is known better:
    possible occupancy, the number of requests, PTX."""
    few = {
        *_all_but(MOST_UNITS, BY_UNIT, tables),
        *_all_but(MOST_CHAIN_UNITS, CHAIN_BY_UNIT, tables),
    }
    if any(name in one for one in tables for name in CHAIN_BY_UNIT.values()):
        few |= set() if bottlenecks & OF_THROUGHPUT else {INSTRUCTIONS, *BY_UNIT.values()}
    better = {OCCUPANCY_LIMIT: WARPS_HELD, LOADS: LOAD_BYTES, PTX_PATH: MACHINE_PATH}
    few |= {name for name, other in better.items() if any(other in one for one in tables)}
    few |= {LOAD_SECTORS} if all(map(_coalesced, tables)) else set()
    held = all(WARPS_HELD in one for one in tables)
    few |= (
        {WAVES} if held and all(one[WAVES].value < 1 for one in tables if WAVES in one) else set()
    )
    return few | IN_TABLE | ({DRAM_READ, DRAM_WRITE} if all(map(_least, tables)) else set())


def _all_but(most: int, names: dict[str, str], tables: Sequence[Table]) -> list[str]:
    """Returns the names of the metrics by unit that are not among the `most` largest."""
    totals = {
        name: sum(one[name].value for one in tables if name in one) for name in names.values()
    }
    return sorted(totals, key=lambda name: -totals[name])[most:]


def _coalesced(metrics: Table) -> bool:
    sectors, asked = metrics.get(LOAD_SECTORS), metrics.get(LOAD_BYTES)
    return sectors is not None and asked is not None and 32 * sectors.value <= 1.01 * asked.value


def _least(metrics: Table) -> bool:
    return OVER_LEAST in metrics and metrics[OVER_LEAST].value <= BEST[OVER_LEAST][1]


def _row(name: str, metrics: Sequence[Metric | None]) -> str:
    """Returns a metric's row: empty where all are 0, or as good as can be; one value where all are
    equal."""
    low, high = BEST.get(name, (0, 0))
    if all(metric is None or not metric.value or low <= metric.value <= high for metric in metrics):
        return ""
    unit = next(metric.unit for metric in metrics if metric)
    label = name if unit in name else f"{name} ({unit})"  # "cycle" in longest_warp_chain_cycles
    return _cells(label, [_value(metric) for metric in metrics])


def _value(metric: Metric | None) -> str:
    if metric is None:
        return "-"
    return f"{metric.value:.0f}" if metric.value == int(metric.value) else f"{metric.value:.3g}"


MOST_LINES = 12
"""Costliest lines that are shown, in the order of the source; all others by region."""
LONGEST_TEXT = 50
"""Characters of a line's text, at most."""
MOST_REGIONS, NEAR = 4, 3
"""Parts of the kernel for the other lines, at most; lines no farther apart are in one."""
Place = tuple[int, tuple[int, ...]]
"""A line, and those of the calls that it is inlined at."""
Lines = dict[Place, SourceLine]
"""The lines of a case's profile."""


def source_rows(profiles: Sequence[Profile]) -> list[tuple[str, list[str]]]:
    """Labels and cells of the rows: the cycles of each of the costliest lines in each case and
    those of the others by region, then the lines of loads that the warp waits for, with the rounds
    and where it waits. Nothing where no profile has lines.
    """
    tables = [{_place(line): line for line in profile.lines} for profile in profiles]
    lines = {place: line for table in tables for place, line in table.items()}
    costs = {
        place: max(table[place].chain_cycles for table in tables if place in table)
        for place in lines
    }
    by_cost = sorted(costs, key=lambda place: -costs[place])
    costliest, others = by_cost[:MOST_LINES], [one for one in by_cost[MOST_LINES:] if costs[one]]
    rows = [
        (f"chain_cycles of {_label(lines[place])}", _line_cells(tables, place, "chain_cycles"))
        for place in sorted(costliest, key=_in_order)
    ]
    rows += [_region(region, tables) for region in _regions(others)]
    waited = [place for place in lines if any(t[place].load_rounds for t in tables if place in t)]
    rows += [
        (
            f"load_rounds of {_label(lines[place])}{_waited_at(tables, place)}",
            _line_cells(tables, place, "load_rounds"),
        )
        for place in sorted(waited, key=_in_order)
    ]
    return rows


def _regions(places: Sequence[Place]) -> list[list[Place]]:
    """Places by the part of the kernel in which they stand: cut where the most lines lie between
    them, into at most MOST_REGIONS."""
    ordered = sorted(places, key=_in_order)
    gaps = [_in_order(b)[0] - _in_order(a)[0] for a, b in pairwise(ordered)]
    widest = sorted(range(len(gaps)), key=lambda at: -gaps[at])[: MOST_REGIONS - 1]
    cuts = [0, *(at + 1 for at in sorted(widest) if gaps[at] > NEAR), len(ordered)]
    return [ordered[a:b] for a, b in pairwise(cuts) if a < b]


def _region(region: Sequence[Place], tables: Sequence[Lines]) -> tuple[str, list[str]]:
    """The label of a region's row, and its cycles in each case."""
    sums = [sum(t[one].chain_cycles for one in region if one in t) for t in tables]
    cells = [f"{cycles:.0f}" if t else "-" for cycles, t in zip(sums, tables, strict=True)]
    first, last = (_in_order(region[at])[0] for at in (0, -1))
    if last == 0:  # nvcc names no line for some instructions
        return "chain_cycles of code without a source line", cells
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"chain_cycles of {counted(len(region), 'other line')} in {where}", cells


def _place(line: SourceLine) -> Place:
    return line.line, line.calls


def _in_order(place: Place) -> list[int]:
    """Returns the lines of a place from the kernel's own inwards, to order places as the kernel
    calls them."""
    line, calls = place
    return [*calls[::-1], line]


def _label(line: SourceLine) -> str:
    text = one_line(line.text)
    cut = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
    return f"{line.place} `{cut}`"


def _waited_at(tables: Sequence[dict[Place, SourceLine]], place: Place) -> str:
    """Returns where the warp waits for this place's loads, of the case with most rounds; "" where
    it is not known."""
    most = max((t[place] for t in tables if place in t), key=lambda line: line.load_rounds)
    return f", waited for at {most.waited_at}" if most.waited_at else ""


def _line_cells(tables: Sequence[dict[Place, SourceLine]], place: Place, name: str) -> list[str]:
    """Returns a place's figure in each case: 0 where the case runs other code, a dash where nothing
    of it was counted."""
    return [
        "-" if not table else f"{getattr(table[place], name):.0f}" if place in table else "0"
        for table in tables
    ]
