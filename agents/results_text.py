"""Results of the judge as a prompt shows them: a table of all timed cases and one of their metrics,
under names that a plan can cite. What the names mean is in agents/roles/metrics.md."""

from __future__ import annotations

import re
from collections.abc import Sequence

from astra_chat.agents.standing import OF_VERDICT
from astra_chat.tools.descriptions import (
    describe,
    describe_resources,
    launches,
    ratio_text,
    speed,
)
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.profiling.metrics import (
    BY_UNIT,
    LANES,
    LEFT,
    LOAD_BYTES,
    LOAD_SECTORS,
    LOADS,
    OCCUPANCY_LIMIT,
    REACHABLE,
    SHARED_WAVEFRONTS_EACH,
    TIME,
    TIME_PARTS,
    TURNS,
    WARPS_HELD,
    profile_on,
    telling,
)
from astra_chat.tools.template_arguments import template_arguments
from astra_chat.tools.text import one_line, report
from astra_chat.tools.types import AnyTime, Metric, Profile, Resources, Timed

MOST_UNITS = 2
"""Of the counts of instructions by unit, the largest are shown."""
MOST_CASES = 8
"""With metrics; of more cases, those where most is left."""
BEST = {LANES: (95, 100), TURNS: (1, 1), SHARED_WAVEFRONTS_EACH: (1, 1)}
"""Values that leave nothing to say, from and to."""
SPLIT = (*TIME_PARTS.values(), REACHABLE, LEFT)
IN_TABLE = frozenset((*SPLIT, TIME))
_ALONE = re.compile(r":? (take|takes)? ?\d[\d.]* us alone")
"""A term of the model, which does not add up with the parts."""
_ONES = re.compile(r"(\d)(x1)+\b")
"""Trailing ones of a grid's or a block's size."""
BAR = " | "


def judge_report(evaluation: Evaluation) -> str:
    """What the judge found about a candidate, as the chat is told it.

    Outcome, resources, a row for each timed case, and their metrics.
    """
    outcome = evaluation.outcome
    resources = f"resources: {describe_resources(used(evaluation))}"
    if not isinstance(outcome, Timed):
        return f"{report(describe(outcome))}\n{resources}"
    verdict = f"correct; {speed(outcome)}: {OF_VERDICT[outcome.verdict]} ({one_line(outcome.why)})"
    tables = filter(None, [cases_text(evaluation, outcome), metrics_text(outcome)])
    return "\n".join([verdict, resources, *tables])


def used(evaluation: Evaluation) -> tuple[Resources, ...]:
    """Resources of the kernels that ran in timed cases, by instantiation where the launches name
    them; of all kernels where nothing is on record."""
    plans = evaluation.evidence.plans if evaluation.evidence else ()
    told = " ".join(f" {plan.launches}" for plan in plans)
    for arguments in (template_arguments, lambda _: ""):
        names = [(one, kernel_name(one.kernel) + arguments(one.kernel))
                 for one in evaluation.resources]  # fmt: skip
        if ran := tuple(one for one, name in names if f" {name} grid" in told):
            return ran
    return evaluation.resources


def cases_text(evaluation: Evaluation, timed: Timed, *, short: bool = False) -> str:
    """A table of the timed cases; `short`: without all that their time is made of."""
    split = any(metric.name == REACHABLE for metric in timed.profile.metrics)
    parts = (LEFT,) if short else SPLIT
    head = ["#", "case", "weight", *["ratio"] * (not short), f"{timed.basis} us"]
    head += [*(parts if split else ["% of limit"]), "bottleneck", *["launches"] * (not short)]
    rows = [BAR.join(head)]
    for number, time in enumerate(timed.cases, 1):
        profile = profile_on(timed, time.case)
        cells = [str(number), time.case.named, f"{time.weight:g}"]
        cells += [ratio_text(time.ratio)] * (not short) + [f"{time.median_us:.2f}"]
        cells += _us(profile, parts) if split else [f"{time.percent_of_limit:.0f}"]
        cells.append(_cause(profile))
        if not short:
            cells.append(_ONES.sub(r"\1", launches(evaluation, time.case)))
        rows.append(BAR.join(cells))
    return "\n".join(rows)


def _us(profile: Profile | None, parts: Sequence[str]) -> list[str]:
    values = {metric.name: metric.value for metric in profile.metrics} if profile else {}
    return [f"{values[name]:.2f}" if name in values else "-" for name in parts]


def _cause(profile: Profile | None) -> str:
    if profile is None:
        return "-"
    sentence = one_line(profile.why).partition(";")[0]
    return f"{profile.bottleneck}: {_ALONE.sub('', sentence)}"


def metrics_text(timed: Timed) -> str:
    """A table of the metrics that the table of cases has not: a row each, a column a case."""
    chosen = _most_left(timed)
    tables = [{m.name: m for m in telling(profile.metrics)} for _, profile in chosen]
    names = [
        n for n in dict.fromkeys(n for one in tables for n in one) if n not in _left_out(tables)
    ]
    rows = [_row(name, [one.get(name) for one in tables]) for name in names]
    if not any(rows):
        return ""
    numbers = [str(number) for number, _ in chosen]
    return "\n".join([BAR.join(["metric of case", *numbers]), *filter(None, rows)])


def _most_left(timed: Timed) -> list[tuple[int, Profile]]:
    """The profiles to show, with the numbers of their cases."""
    found = [(number, time, profile) for number, time in enumerate(timed.cases, 1)
             if (profile := profile_on(timed, time.case))]  # fmt: skip
    left = {number: time.weight * _share_left(time, profile) for number, time, profile in found}
    most = sorted(left, key=lambda number: -left[number])[:MOST_CASES]
    return [(number, profile) for number, _, profile in found if number in most]


def _share_left(time: AnyTime, profile: Profile) -> float:
    above = profile.metric(LEFT)
    return above.value / time.median_us if above else 1 - time.percent_of_limit / 100


def _left_out(tables: Sequence[dict[str, Metric]]) -> set[str]:
    """What the other table has, units that execute little, sectors where no more than the bytes
    that are asked for, and what is known better: possible occupancy, the number of requests."""
    units = {unit: sum(one[unit].value for one in tables if unit in one)
             for unit in BY_UNIT.values()}  # fmt: skip
    few = sorted(units, key=lambda unit: -units[unit])[MOST_UNITS:]
    better = {OCCUPANCY_LIMIT} if any(WARPS_HELD in one for one in tables) else set()
    better |= {LOADS} if any(LOAD_BYTES in one for one in tables) else set()
    return {*IN_TABLE, *few, *better, *({LOAD_SECTORS} if all(map(_coalesced, tables)) else ())}


def _coalesced(metrics: dict[str, Metric]) -> bool:
    sectors, asked = metrics.get(LOAD_SECTORS), metrics.get(LOAD_BYTES)
    return sectors is not None and asked is not None and 32 * sectors.value <= 1.01 * asked.value


def _row(name: str, metrics: Sequence[Metric | None]) -> str:
    """Empty where all are 0, or as good as can be; one value where all are equal."""
    values = [_value(metric) for metric in metrics]
    low, high = BEST.get(name, (0, 0))
    if all(metric is None or not metric.value or low <= metric.value <= high for metric in metrics):
        return ""
    unit = next(metric.unit for metric in metrics if metric)
    shown = values if len(set(values)) > 1 else [f"{values[0]} in all" if values[1:] else values[0]]
    return BAR.join([f"{name} ({unit})" if unit else name, *shown])


def _value(metric: Metric | None) -> str:
    if metric is None:
        return "-"
    return f"{metric.value:.0f}" if metric.value == int(metric.value) else f"{metric.value:.3g}"
