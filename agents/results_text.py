"""Results of the judge as a prompt shows them: all timed cases in a few lines, with names that a
plan can cite."""

from __future__ import annotations

import re

from astra_chat.agents.standing import OF_VERDICT
from astra_chat.tools.descriptions import (
    describe,
    describe_resources,
    launches,
    metric_text,
    ratio_text,
    speed,
)
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.profiling.metrics import (
    BY_UNIT,
    LEFT,
    REACHABLE,
    TIME,
    TIME_PARTS,
    WORDS,
    profile_on,
    telling,
)
from astra_chat.tools.text import one_line, report
from astra_chat.tools.types import AnyTime, Metric, Profile, Resources, Timed

MOST_UNITS = 2
"""Of the counts of instructions by unit, the largest are shown."""
IN_TABLE = frozenset((*TIME_PARTS.values(), REACHABLE, LEFT, TIME))
_ALONE = re.compile(r":? (take|takes)? ?\d[\d.]* us alone")
"""A term of the model, which does not add up with the parts."""
COLUMNS = (
    f"{{}} us = {' + '.join(TIME_PARTS.values())}; {REACHABLE}, the floor of this task, and"
    f" {LEFT} above"
)


def judge_report(evaluation: Evaluation) -> str:
    """What the judge found about a candidate, as the chat is told it.

    Outcome, resources, a line for each timed case, and the metrics of one of them.
    """
    outcome = evaluation.outcome
    resources = f"resources: {describe_resources(used(evaluation))}"
    if not isinstance(outcome, Timed):
        return f"{report(describe(outcome))}\n{resources}"
    verdict = f"correct; {speed(outcome)}: {OF_VERDICT[outcome.verdict]} ({one_line(outcome.why)})"
    cases = cases_text(evaluation, outcome)
    return "\n".join([verdict, resources, cases, metrics_text(outcome.profile)])


def used(evaluation: Evaluation) -> tuple[Resources, ...]:
    """Resources of the kernels that ran in timed cases; of all where that is not on record."""
    plans = evaluation.evidence.plans if evaluation.evidence else ()
    words = {word for plan in plans for word in plan.launches.split()}
    ran = tuple(one for one in evaluation.resources if kernel_name(one.kernel) in words)
    return ran or evaluation.resources


def cases_text(evaluation: Evaluation, timed: Timed, *, launched: bool = True) -> str:
    """A line for each timed case; `launched`: with what it launches."""
    split = REACHABLE in {metric.name for metric in timed.profile.metrics}
    lines = [COLUMNS.format(timed.basis)] if split else []
    for time in timed.cases:
        line = launches(evaluation, time.case) if launched else ""
        lines.append(_case_line(timed, time, re.sub(r"(\d)(x1)+\b", r"\1", line)))
    return "\n".join(lines)


def _case_line(timed: Timed, time: AnyTime, launch_line: str) -> str:
    profile = profile_on(timed, time.case)
    head = f"- {time.case.named}, weight {time.weight:g}:"
    figures = {metric.name: metric.value for metric in profile.metrics} if profile else {}
    if REACHABLE in figures:
        split = " + ".join(f"{figures[name]:.2f}" for name in TIME_PARTS.values())
        reach = f"reachable {figures[REACHABLE]:.2f}, left {figures[LEFT]:.2f}"
        parts = [f"{head} {time.median_us:.2f} = {split}", reach]
    else:
        us = f"{time.basis} {time.median_us:.2f} us"
        parts = [f"{head} {us}", f"{time.percent_of_limit:.0f} % of the limit"]
    parts.append(ratio_text(time.ratio))
    if profile:
        sentence = one_line(profile.why).partition(";")[0]
        parts.append(f"{profile.bottleneck}: {_ALONE.sub('', sentence)}")
    return "; ".join(filter(None, [*parts, launch_line]))


def metrics_text(profile: Profile) -> str:
    """Metrics of one case that are not in the table of all, with what the words cite."""
    by_unit = sorted(
        (m for m in profile.metrics if m.name in BY_UNIT.values()), key=lambda m: -m.value
    )
    left_out = IN_TABLE | {m.name for m in by_unit[MOST_UNITS:]}
    shown = [m for m in telling(profile.metrics) if m.name not in left_out and m.value]
    why = one_line(profile.why).partition(";")[2].strip()
    head = f"Metrics of {profile.case.named}" + (f" ({why})" if why else "")
    return "\n".join([f"{head}:", *map(_metric_line, shown)])


def _metric_line(metric: Metric) -> str:
    """Nsight Compute's names say what they are; our own are explained."""
    known = metric.name in WORDS or not metric.words
    return f"- {metric_text(metric)}" + ("" if known else f": {metric.words}")
