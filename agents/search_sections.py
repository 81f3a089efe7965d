"""Sections of a prompt that widen a search: prices to reckon with, other algorithms, kernels that
differ, a second parent; and how a tester's cases are scored."""

from __future__ import annotations

import difflib

from astra_chat.agents.prompt_section import ChatContext, Section
from astra_chat.agents.roles import passage
from astra_chat.agents.run_state import RunState
from astra_chat.agents.source_sections import parent_source
from astra_chat.agents.source_text import listing
from astra_chat.agents.standing import rounds_below_resolution
from astra_chat.tools.report.prices import prices_text
from astra_chat.tools.task.contract_text import ranks_text
from astra_chat.tools.text import fenced, one_line
from astra_chat.tools.types import Timed

CONTEXT = 2
"""Lines beside each change."""


def difference(before: str, after: str) -> str:
    """The changed lines with a few beside them; the whole source where that is shorter."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "source to change", "this one", "", "", CONTEXT, ""
    )
    changed, whole = fenced("\n".join(lines), "diff"), listing(after)
    return changed if len(changed) < len(whole) else whole


USED_UP = 2
"""Rounds in a row without a gain that can be resolved: then another algorithm is asked for."""


def scoring(context: ChatContext, state: RunState) -> Section | None:
    """For the tester of a run that scores its cases."""
    text = passage("scored_cases")
    return Section("How your cases are scored", text) if state.limits.mutants else None


def prices(context: ChatContext, state: RunState) -> Section | None:
    """What the planner reckons with: the same in every round."""
    judged = state.baseline
    if judged is None or not isinstance(judged.outcome, Timed):
        return None
    text = prices_text(context.task, judged.outcome, judged.device)
    return Section("Costs to consider", text, 2) if text else None


def ranks(context: ChatContext, state: RunState) -> Section | None:
    """What each rank holds and how ranks signal, of a task for several GPUs."""
    contract = context.task.ranks
    if contract is None:
        return None
    return Section("Ranks", f"{ranks_text(contract)}\n{passage('ranks')}")


def taxes(context: ChatContext, state: RunState) -> Section | None:
    """What a kernel over several GPUs pays for its peers."""
    return Section("The three taxes", passage("taxes")) if context.task.ranks else None


def algorithms(context: ChatContext, state: RunState) -> Section | None:
    """Asks for another algorithm: in the first round, and where small changes are used up."""
    below = rounds_below_resolution(state.rounds)
    if state.rounds and below < USED_UP:
        return None
    why = f"None of the last {below} rounds gained more than the resolution. " if below else ""
    return Section("Is there another algorithm?", why + passage("algorithms"))


def kernels_of_plan(context: ChatContext, state: RunState) -> Section | None:
    """For a coder whose plan gets several kernels: those that there are, and that they differ."""
    most, under_way = state.strategy.candidates, state.round
    if most < 2 or under_way is None:
        return None
    source = parent_source(context, state)
    kernels = [one.kernel for one in under_way.attempts]
    shown = [
        f"{one.candidate}: {one_line(one.words)}\n{difference(source, one.source)}"
        for one in kernels
    ]
    asked = passage("kernels_of_plan").format(most=most, number=len(kernels) + 1)
    return Section("The other kernels of this plan", "\n".join([asked, *shown]), 1)


def second_parent(context: ChatContext, state: RunState) -> Section | None:
    name = state.round.plan.second_parent if state.round else ""
    other = state.sources.get(name)
    if other is None:
        return None
    return Section(
        f"The second parent, {name}: adopt from it what the plan names",
        difference(parent_source(context, state), other),
        1,
    )
