"""The prompt of a turn: a pure function of the state, and bounded.

The stable part (task, rules, contract) comes first, then the source, so that model servers can
cache them. What changes comes last, and the position in the chat at the very end.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from astra_chat.agents.constants import PLAN_PROMPT, PROMPT, TRITON_PROMPT, without_effect
from astra_chat.agents.edits import lines_of
from astra_chat.agents.evaluations import profile_of
from astra_chat.agents.memory_cards import matching
from astra_chat.agents.plan_predictions import Prediction, predictions, score
from astra_chat.agents.position import position_line, position_of
from astra_chat.agents.prompt_section import ChatContext as ChatContext
from astra_chat.agents.prompt_section import Section
from astra_chat.agents.roles import passage
from astra_chat.agents.rounds import Attempt, Round
from astra_chat.agents.run_state import RunState
from astra_chat.agents.source_sections import (
    failing,
    last_source,
    parent,
    parent_source,
    parent_that_runs,
    tested,
)
from astra_chat.agents.source_sections import source_to_edit as source_to_edit
from astra_chat.agents.source_text import listing
from astra_chat.agents.standing import (
    Standing,
    rounds_below_resolution,
    rounds_without_gain,
    standings,
)
from astra_chat.agents.task_text import (
    accept_text,
    bullets,
    comparison_text,
    headers_text,
    inputs_text,
    launcher_text,
    task_text,
)
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import Plan, RoleName
from astra_chat.tools.descriptions import (
    describe,
    number,
    predicted_text,
    ratio_text,
    speed,
    verdict,
)
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.language import written_in
from astra_chat.tools.mutation.scores import CaseScore
from astra_chat.tools.report.prices import prices_text
from astra_chat.tools.report.results_text import cases_list, judge_report, times_text
from astra_chat.tools.task.contract_text import ranks_text
from astra_chat.tools.text import fenced, one_line
from astra_chat.tools.timing.comparison import ESTIMATES
from astra_chat.tools.types import Basis, Case, Timed
from astra_chat.tools.wording import counted

MAX_CHARACTERS = 64_000
"""A prompt stays below this unless a single source is longer by itself."""
LOG_ROUNDS = 12
PREDICTION_ROUNDS = 2


def turn_prompt(role: RoleName, context: ChatContext, state: RunState) -> str:
    """The user message of this turn; the system message is the role's standing instructions."""
    acting = acts_as(role, state)
    makers = SECTIONS[acting]
    if role == "single":
        makers = (*makers, *SINGLE_EXTRA.get(acting, ()))
    sections = [s for make in makers if (s := make(context, state)) is not None]
    last = position_line(position_of(role, state))
    while len(text := "\n".join([*map(str, sections), last])) > MAX_CHARACTERS:
        first = max(sections, key=lambda section: section.drop_rank)
        if first.drop_rank == 0:
            break
        sections.remove(first)
    return text


def _single_reply(context: ChatContext, state: RunState) -> Section:
    """Which kind of reply the single agent has to give now."""
    return Section("Answer now with", SINGLE_REPLIES.get(acts_as("single", state), "A pass."))


def _task(context: ChatContext, state: RunState) -> Section:
    return Section(f"Task {context.task.name}", task_text(context.task, context.device))


def _rules(context: ChatContext, state: RunState) -> Section | None:
    basis = _basis(state)
    if basis is None:
        return None
    text = comparison_text(basis, memory=context.task.memory is not None)
    return Section("How candidates are compared", text)


def _cases(context: ChatContext, state: RunState) -> Section | None:
    """What the numbers of timed cases stand for: the same for all candidates."""
    outcome = state.baseline.outcome if state.baseline else None
    if not isinstance(outcome, Timed):
        return None
    return Section("Timed cases, by their numbers in the tables", cases_list(outcome), 1)


def _basis(state: RunState) -> Basis | None:
    outcome = state.baseline.outcome if state.baseline else None
    return outcome.basis if isinstance(outcome, Timed) else None


def _contract(context: ChatContext, state: RunState) -> Section:
    return Section("The launcher to export", launcher_text(context.task, state.limits.languages))


def _inputs(context: ChatContext, state: RunState) -> Section | None:
    text = inputs_text(context.task)
    return Section("How the inputs of a case are drawn", text, 4) if text else None


def _accept(context: ChatContext, state: RunState) -> Section | None:
    text = accept_text(context.task)
    title = (
        "What `accept` accepts: it returns None for a correct result, and otherwise a text that"
        " says what is wrong"
    )
    return Section(title, text, 4) if text else None


def _headers(context: ChatContext, state: RunState) -> Section | None:
    text = headers_text(context.task)
    return Section("Headers of the task that a candidate may include", text, 4) if text else None


def _tests(context: ChatContext, state: RunState) -> Section | None:
    dims = " x ".join(context.task.dims)
    lines = [*_by_kind(context.task.check), *(f"testers': {c.label}" for c in state.extra_cases)]
    lines += [
        f"drawn later; an earlier candidate failed on it: {c.label}" for c in state.failed_cases
    ]
    return Section(f"Cases that every candidate must pass, given as {dims}", bullets(lines), 3)


def _by_kind(cases: Sequence[Case]) -> list[str]:
    """Cases that differ in their dims alone on one line."""
    kinds: dict[str, list[str]] = {}
    for case in cases:
        dims, _, kind = case.label.partition(" ")
        kinds.setdefault(kind, []).append(dims)
    return [f"{kind}: {', '.join(dims)}" for kind, dims in kinds.items()]


def _score(context: ChatContext, state: RunState) -> Section | None:
    scores = state.scores
    if scores is None:
        return None
    lines = [_case_score(one, kept=one.case not in scores.dropped) for one in scores.cases]
    lines += [f"survived: {name}" for name in scores.survivors]
    if scores.own:
        lines.append(f"already detected by the task's own cases: {'; '.join(scores.own)}")
    return Section(
        "Seeded bugs that your last cases detected", f"{scores.summary()}\n{bullets(lines)}"
    )


def _case_score(score: CaseScore, *, kept: bool) -> str:
    if not kept:
        return f"discarded, detects none: {score.case.named}"
    what = score.unjudged or f"detects {len(score.kills)}"
    return f"kept, {one_line(what)}: {score.case.named}"


def _progress(context: ChatContext, state: RunState) -> Section:
    """For the planner: the round to come, the budget, and what is kept."""
    number, rounds = len(state.rounds) + 1, state.limits.rounds
    return _state(context, state, f"round {number} of {rounds}" + ", the last" * (number >= rounds))


def _progress_after(context: ChatContext, state: RunState) -> Section:
    """For the profiler, after a round's candidates: the round, the budget, and what is kept."""
    number, rounds = len(state.rounds), state.limits.rounds
    last = ", the last: no plan follows, so your analysis is only for the report"
    return _state(context, state, f"round {number} of {rounds}" + last * (number >= rounds))


def _state(context: ChatContext, state: RunState, where: str) -> Section:
    limits, lines = state.limits, [f"{where}; {counted(state.evaluations, 'evaluation')} so far"]
    if left := context.budget_left():
        lines.append(f"budget left: {left}")
    if limits.patience is not None:
        gone = rounds_without_gain(state.rounds)
        lines.append(
            f"{counted(gone, 'round')} in a row without a gain; the run ends after "
            f"{limits.patience}"
        )
    if state.best is None:
        lines.append("so far, no candidate has been accepted as faster than the baseline")
    else:
        lines.append(f"best so far: {state.best[0].candidate}, {speed(state.best[1])}")
    return Section("State of the run", bullets(lines))


def _standing(context: ChatContext, state: RunState) -> Section | None:
    """How the last candidate stands, for who is not shown the earlier rounds."""
    stands = list(standings(state.rounds))
    return Section("Result of the last candidate", stands[-1].text) if stands else None


def _tuned(context: ChatContext, state: RunState) -> Section | None:
    """What came of the constants that the round's candidate left open."""
    tuning = state.round.tuning if state.round else None
    return Section("Constants left open so far", tuning.words, 2) if tuning else None


def _log(context: ChatContext, state: RunState) -> Section | None:
    if not state.rounds:
        return None
    lines = round_lines(state.rounds)[-LOG_ROUNDS:]
    if len(state.rounds) > LOG_ROUNDS:
        lines.insert(0, f"({len(state.rounds) - LOG_ROUNDS} earlier rounds omitted)")
    return Section("Earlier rounds", bullets(lines), 1)


def _plan(context: ChatContext, state: RunState) -> Section | None:
    if state.round is None:
        return None
    plan, source = state.round.plan, parent_source(context, state)
    return Section(f"The plan: {one_line(plan.title)}", plan_text(plan, source, _basis(state)))


def _open_constants(context: ChatContext, state: RunState) -> Section | None:
    if not state.limits.tune:
        return None
    triton = TRITON_PROMPT if "triton" in state.limits.languages else ""
    text = " ".join(filter(None, (PROMPT, triton, without_effect(state))))
    return Section("Constants that you leave open", text)


def _open_in_plan(context: ChatContext, state: RunState) -> Section | None:
    points = state.limits.tune
    title = "Constants that a plan may leave open"
    return Section(title, PLAN_PROMPT.format(points=points)) if points else None


def _plan_in_short(context: ChatContext, state: RunState) -> Section | None:
    if state.served is None:
        return None
    plan = state.served.plan
    return Section(f"The plan: {one_line(plan.title)}", plan_in_short(plan))


def _predictions(context: ChatContext, state: RunState) -> Section | None:
    judged = predictions(state.rounds)
    if not judged:
        return None
    lines = [score(judged).text, *(prediction_line(one) for one in judged[-PREDICTION_ROUNDS:])]
    return Section("Predictions of plans and their results", bullets(lines), 2)


def _profile(context: ChatContext, state: RunState) -> Section | None:
    return _report("Profile of the source to change", state.parent) if state.parent else None


def _parent_cases(context: ChatContext, state: RunState) -> Section | None:
    parent = state.parent
    if parent is None or not isinstance(parent.outcome, Timed):
        return None
    return Section(
        "Timed cases of the source to change", times_text(parent, parent.outcome, short=True), 2
    )


def _memory(context: ChatContext, state: RunState) -> Section | None:
    """After the planner's own first ideas."""
    cards = state.request.memory if state.request else ()
    if not cards or not state.rounds:
        return None
    profile = profile_of(state.parent)
    found = matching(cards, profile.bottleneck if profile else None, _basis(state))
    lines = [MEMORY, *(card.text for card in found)]
    return Section("What other runs found", bullets(lines), 5)


def _analysis(context: ChatContext, state: RunState) -> Section | None:
    """The profiler's last analysis, and which source it is about."""
    analysis, about, parent = state.analysis, state.analysed, state.parent
    if analysis is None:
        return None
    same = about is not None and parent is not None and about.candidate == parent.candidate
    subject = "the source to change" if same else "the last candidate, not on the source to change"
    return Section(
        f"The profiler on {subject}",
        f"Analysis: {one_line(analysis.words)}\nBottleneck: {one_line(analysis.bottleneck)}",
        2,
    )


def _other_report(context: ChatContext, state: RunState) -> Section | None:
    """The judge's report on the last candidate, unless that is the source to change."""
    last, parent = state.evaluated, state.parent
    same = last is not None and parent is not None and last.candidate == parent.candidate
    return None if same else _last_report(context, state)


def _last_report(context: ChatContext, state: RunState) -> Section | None:
    return (
        _report("The judge's report on the last candidate", state.evaluated)
        if state.evaluated
        else None
    )


def _report(title: str, evaluation: Evaluation) -> Section:
    return Section(title, judge_report(evaluation, listed=True))


MEMORY = (
    "This is evidence from other tasks and kernels, not a set of rules: what helped there may "
    "hurt here, and what failed there may work here"
)
SINGLE_REPLIES = {
    "planner": "A plan.",
    "coder": "A kernel: the whole source of the candidate that your plan asks for.",
    "fixer": "A kernel: the whole source of the candidate, corrected.",
}
SINGLE_EXTRA: dict[str, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "planner": (_other_report, _single_reply),
    "coder": (_single_reply,),
    "fixer": (_single_reply,),
}
"""Sections that a single agent gets in addition to those of the role it acts as."""

# Sections of a prompt that widen a search: prices to reckon with, other algorithms, kernels that
# differ, a second parent; and how a tester's cases are scored.

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


SECTIONS: dict[RoleName, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "tester": (_task, ranks, _inputs, scoring, tested, _tests, _score, _analysis),
    "planner": (
        _task, ranks, _contract, _cases, _inputs, _accept, _rules, taxes, prices,
        parent_that_runs, _progress, _open_in_plan, _log, _predictions, _profile, _analysis,
        algorithms, _memory,
    ),
    "coder": (
        _task, ranks, _contract, _cases, _inputs, _accept, _headers, parent, _parent_cases, _plan,
        second_parent, _open_constants, kernels_of_plan,
    ),
    "fixer": (_task, ranks, _contract, _accept, _headers, _plan_in_short, failing),
    "profiler": (
        _task, ranks, _cases, _rules, taxes, last_source, _progress_after, _plan_in_short, _tuned,
        _standing, _last_report,
    ),
    "single": (_task, parent),
}  # fmt: skip


# Plans, earlier rounds and predictions as a prompt shows them.


def round_lines(rounds: Sequence[Round]) -> list[str]:
    """Returns a line for each round: its plan and what became of its candidates, with their
    names."""
    stands = {(one.round, id(one.attempt)): one for one in standings(rounds)}
    lines = []
    for one in rounds:
        results = [_result(a, stands.get((one.number, id(a)))) for a in one.attempts]
        told = "; ".join(filter(None, results)) or "no candidate"
        told += f"; tuned: {one_line(one.tuning.words)}" if one.tuning else ""
        lines.append(f"round {one.number}, {one_line(one.plan.title)}: {told}")
    return lines


def prediction_line(one: Prediction) -> str:
    """A plan's prediction beside the result."""
    actual = "no correct kernel" if one.actual_ratio is None else ratio_text(one.actual_ratio)
    line = f"round {one.round}: predicted {predicted_text(one.predicted_ratio)}, actual {actual}"
    if one.before is None or one.after is None:
        return line
    case = f" on {one_line(one.case)}" if one.case else ""
    predicted = "" if one.moves == "unsaid" else f" (predicted: {one.moves})"
    moved = f"{number(one.before)} to {number(one.after)}"
    return f"{line}; {one_line(one.metric)} {moved}{case}{predicted}"


def _result(attempt: Attempt, standing: Standing | None) -> str:
    """The result of a candidate; empty if it was not built."""
    result = ""
    if standing:
        timed = standing.timed
        result = f"{attempt.kernel.candidate}{written_in(attempt.kernel.source)}"
        result += f" {ratio_text(timed.ratio)} ({standing.text})"
    elif attempt.evaluation:
        result = f"{attempt.speaker}: {verdict(attempt.evaluation.outcome)}"
    elif attempt.build:
        result = f"{attempt.speaker}: {verdict(attempt.build.result)}"
    if attempt.repairs and result:
        result = f"repair of {attempt.repairs}: {result}"
    if attempt.refused is not None:
        why = one_line(describe(attempt.refused.outcome))
        result = f"{result}, but it failed confirmation: {why}"
    if attempt.rejected is None:
        return result
    return f"{result}, rejected by the human: {one_line(attempt.rejected) or 'no reason given'}"


def plan_text(plan: Plan, source: str, basis: Basis | None) -> str:
    """`source`: what the plan changes; `basis`: of the run's times."""
    lines = ", ".join(map(str, lines_of(plan.anchor, source)))
    where = f"line {lines}" if lines else "not found in the source to change"
    anchored = f"Where: {one_line(plan.anchor)} ({where})\n" if plan.anchor.strip() else ""
    risk = f"\nRisk: {one_line(plan.risk)}" if plan.risk else ""
    return (
        f"Change: {one_line(plan.change)}\nWhy: {one_line(plan.why)}\n"
        f"{anchored}Metric expected to change: {_metric(plan)}{risk}" + _small_gain(plan, basis)
    )


def plan_in_short(plan: Plan) -> str:
    """What was changed, and what should have come of it."""
    predicted = f"{predicted_text(plan.predicted_ratio)} over its parent; {_metric(plan)}"
    return f"Change: {one_line(plan.change)}\nPredicted: {predicted}"


def _metric(plan: Plan) -> str:
    """With the case and the direction in which it should change."""
    case = f" on {one_line(plan.case)}" if plan.case else ""
    moves = "" if plan.moves == "unsaid" else f", {plan.moves}"
    return f"{one_line(plan.metric)}{case}{moves}"


def _small_gain(plan: Plan, basis: Basis | None) -> str:
    """The objection to a plan whose predicted gain is too small to be measured."""
    if basis != "estimated" or not 1 / ESTIMATES < plan.predicted_ratio < ESTIMATES:
        return ""
    return (
        f"\nIts predicted {predicted_text(plan.predicted_ratio)} is within the resolution of"
        f" estimates ({ESTIMATES - 1:.0%}): even if the prediction is correct, the result will be"
        " a tie."
    )
