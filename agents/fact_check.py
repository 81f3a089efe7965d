"""What in a usable reply the facts speak against: it goes back to the model once, in words.

A model that says the same again is believed to mean it: its turn stands, with the doubt beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.run_state import RunState, profile_of
from astra_chat.agents.turns import Analysis, Payload, Plan
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.profiling.metrics import BOTTLENECKS, KNOWN, telling
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Profile

MOST_NAMES = 8
MOST_SHOWN = 120
"""Characters of an anchor or a name."""
NEAR = 0.5
"""Share of a text that has to be the same for it to be what was meant."""


def doubt(said: Payload, setting: ChatContext, state: RunState) -> str | None:
    """What is wrong in a reply after `state`, with what would be right; None if nothing is."""
    match said:
        case Plan():
            found = _of_plan(said, setting, state)
        case Analysis():
            found = _of_analysis(said, state.evaluated)
        case _:
            found = []
    return "; ".join(found) or None


def ask_to_check(reason: str) -> str:
    return (
        f"The facts speak against your reply: {reason}. Answer once more with the whole JSON"
        " object: mended, or the same again if you stand by it."
    )


def _of_plan(plan: Plan, setting: ChatContext, state: RunState) -> list[str]:
    parent = state.parent
    source = state.sources.get(parent.candidate) if parent else None
    found = _of_anchor(plan.anchor, setting.baseline if source is None else source)
    profile = profile_of(parent)
    names = {metric.name for metric in profile.metrics} if profile else set()
    if plan.metric not in names | KNOWN:
        found.append(f"no profile has a metric '{_shown(plan.metric)}': {_names(profile)}"
                     f"{_nearest(plan.metric, names | KNOWN)}")  # fmt: skip
    return found


def _of_anchor(anchor: str, source: str) -> list[str]:
    """Lines of an anchor that the source lacks, blanks aside."""
    there = {_squeezed(line): number for number, line in enumerate(source.splitlines(), 1)}
    text = _squeezed(source)
    lines = [line for line in map(_squeezed, anchor.splitlines()) if line]
    missing = [line for line in lines if line not in text]
    if not lines:
        return ["the anchor is empty: copy a line of the source to change"]
    if not missing:
        return []
    near = get_close_matches(missing[0], list(there), 1, NEAR)
    right = f"line {there[near[0]]} is `{_shown(near[0])}`" if near else "copy a line of it exactly"
    return [f"the anchor `{_shown(missing[0])}` is not in the source to change: {right}"]


def _of_analysis(analysis: Analysis, evaluation: Evaluation | None) -> list[str]:
    profile, found = profile_of(evaluation), []
    if analysis.bottleneck not in BOTTLENECKS:
        there = ", ".join(BOTTLENECKS)
        found.append(f"'{_shown(analysis.bottleneck)}' is no bottleneck: say one of {there}")
    if profile is None or not profile.metrics:
        return found
    names = {metric.name for metric in profile.metrics}
    if missing := [name for name in analysis.evidence if name not in names]:
        listed = ", ".join(f"'{_shown(name)}'" for name in missing[:MOST_NAMES])
        found.append(f"this evaluation has no metric {listed}: {_names(profile)}"
                     f"{_nearest(missing[0], names)}")  # fmt: skip
    return found


def _names(profile: Profile | None) -> str:
    """Some names that may be used."""
    shown = telling(profile.metrics)[:MOST_NAMES] if profile else []
    if not shown:
        return "use one of Nsight Compute's names"
    more = ", ..." if profile and len(profile.metrics) > len(shown) else ""
    return f"there are {', '.join(metric.name for metric in shown)}{more}"


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(names), 1, NEAR)
    return f"; the nearest is {near[0]}" if near else ""


def _shown(text: str) -> str:
    """A model's words in one line, cut."""
    text = one_line(text)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _squeezed(text: str) -> str:
    return " ".join(text.split())
