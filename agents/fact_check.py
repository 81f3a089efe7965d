"""Usable replies that contradict the facts: each goes back to the model once, with the reason.

If the model repeats it, the turn is accepted and the contradiction recorded with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from astra_chat.agents.evaluations import profile_of, profiles_of
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import RunState
from astra_chat.agents.source_text import without_numbers
from astra_chat.agents.strategy import named
from astra_chat.agents.turns import Analysis, Payload, Plan
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.profiling.metrics import BOTTLENECKS, KNOWN, telling
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Profile, Timed

MAX_NAMES = 8
MAX_SHOWN = 120
"""Characters of an anchor or a name."""
SIMILARITY = 0.5
"""Least similarity (difflib) of a text that is suggested instead."""


def contradiction(reply: Payload, context: ChatContext, state: RunState) -> str | None:
    """What in a reply contradicts the facts of `state`, with a correction; None if nothing does."""
    match reply:
        case Plan():
            reasons = _of_plan(reply, context, state)
        case Analysis():
            reasons = _of_analysis(reply, state.evaluated)
        case _:
            reasons = []
    return "; ".join(reasons) or None


def ask_to_check(reason: str) -> str:
    return (
        f"Your reply contradicts the facts: {reason}. Answer again with the whole JSON object:"
        " corrected, or unchanged if you are sure."
    )


def _of_plan(plan: Plan, context: ChatContext, state: RunState) -> list[str]:
    other = named(state.tried, plan.parent)
    if plan.parent and other is None:
        return [_unknown_parent(plan.parent, state)]
    parent = other[1] if other else state.parent
    reasons = _of_second_parent(plan.second_parent, parent, state)
    source = state.sources.get(parent.candidate) if parent else None
    if not plan.parent:  # else it was not shown
        reasons += _of_anchor(plan.anchor, context.baseline if source is None else source)
    reasons += _of_case(plan.case, parent)
    profile = profile_of(parent)
    names = {metric.name for metric in profile.metrics} if profile else set()
    if plan.metric not in names | KNOWN:
        reasons.append(
            f"no profile has a metric '{_shown(plan.metric)}': {_names(profile)}"
            f"{_nearest(plan.metric, names | KNOWN)}"
        )
    return reasons


def _of_second_parent(name: str, parent: Evaluation | None, state: RunState) -> list[str]:
    if not name:
        return []
    if named(state.tried, name) is None:
        return [_unknown_parent(name, state)]
    if parent is not None and parent.candidate == name:
        return [
            f"second_parent {_shown(name)} is the parent itself: name another candidate, or "
            "leave it empty"
        ]
    return []


def _unknown_parent(name: str, state: RunState) -> str:
    correct = [one.evaluation.candidate for one in state.tried if one.correct and one.evaluation]
    known = ", ".join(dict.fromkeys(correct)) or "none yet"
    return f"no correct candidate is named '{_shown(name)}': use one of {known}"


def _of_case(label: str, parent: Evaluation | None) -> list[str]:
    outcome = parent.outcome if parent else None
    labels = [time.case.named for time in outcome.cases] if isinstance(outcome, Timed) else []
    if not label or not labels or label in labels:
        return []
    return [f"'{_shown(label)}' is not a timed case: use one of {', '.join(labels)}"]


def _of_anchor(anchor: str, source: str) -> list[str]:
    """What is wrong with an anchor: lines that the source does not have, ignoring whitespace."""
    by_text = {_normalized(line): number for number, line in enumerate(source.splitlines(), 1)}
    text = _normalized(source)
    copied = without_numbers(anchor, source).splitlines()
    lines = [line for line in map(_normalized, copied) if line]
    missing = [line for line in lines if line not in text]
    if not lines:
        return ["the anchor is empty: copy a line from the source to change"]
    if not missing:
        return []
    near = get_close_matches(missing[0], list(by_text), 1, SIMILARITY)
    hint = (
        f"line {by_text[near[0]]} is `{_shown(near[0])}`" if near else "copy a line of it exactly"
    )
    return [f"the anchor `{_shown(missing[0])}` is not in the source to change: {hint}"]


def _of_analysis(analysis: Analysis, evaluation: Evaluation | None) -> list[str]:
    profile, reasons = profile_of(evaluation), []
    if analysis.bottleneck not in BOTTLENECKS:
        known = ", ".join(BOTTLENECKS)
        reasons.append(f"'{_shown(analysis.bottleneck)}' is not a bottleneck: use one of {known}")
    if profile is None or not profile.metrics:
        return reasons
    names = {metric.name for one in profiles_of(evaluation) for metric in one.metrics}
    if missing := [name for name in analysis.evidence if name not in names]:
        listed = ", ".join(f"'{_shown(name)}'" for name in missing[:MAX_NAMES])
        reasons.append(
            f"this evaluation has no metric {listed}: {_names(profile)}"
            f"{_nearest(missing[0], names)}"
        )
    return reasons


def _names(profile: Profile | None) -> str:
    """Some names that may be used."""
    shown = telling(profile.metrics)[:MAX_NAMES] if profile else []
    if not shown:
        return "use one of Nsight Compute's metric names"
    more = ", ..." if profile and len(profile.metrics) > len(shown) else ""
    return f"available: {', '.join(metric.name for metric in shown)}{more}"


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(names), 1, SIMILARITY)
    return f"; the most similar name is {near[0]}" if near else ""


def _shown(text: str) -> str:
    """A model's text in one line, cut."""
    text = one_line(text)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def _normalized(text: str) -> str:
    return " ".join(text.split())
