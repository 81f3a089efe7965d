"""The prompt of a turn: a pure function of the state, and bounded.

The stable part (task, contract, baseline) comes first, so that model servers can cache it. What
changes comes last, and the position in the chat at the very end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from astra_chat.agents.edits import lines_of
from astra_chat.agents.plan_predictions import Prediction, predictions, score
from astra_chat.agents.position import position_line, position_of
from astra_chat.agents.roles import example
from astra_chat.agents.rounds import Attempt, Round
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import MODEL_ROLES, RoleName
from astra_chat.tools.descriptions import (
    describe,
    describe_build,
    describe_evaluation,
    describe_resources,
    describe_times,
    metric_text,
    number,
    ratio_text,
    speed,
    verdict,
)
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.profiling.metrics import telling
from astra_chat.tools.task.contract_text import (
    argument_text,
    codes_text,
    domain_lines,
    scalar_text,
    types_text,
)
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.text import fenced, one_line, report
from astra_chat.tools.types import Timed

MAX_CHARACTERS = 64_000
"""A prompt stays below this unless a single source is longer by itself."""
LOG_ROUNDS = 12
PREDICTION_ROUNDS = 4


@dataclass(frozen=True)
class ChatContext:
    """What does not change during a chat."""

    task: Task
    baseline: str
    """Source of the baseline tier that candidates are compared with."""
    tier: str
    device: str
    roles: tuple[RoleName, ...] = MODEL_ROLES
    """Roles that models play in this chat."""


@dataclass(frozen=True)
class Section:
    """A part of a prompt. Too long a prompt loses the highest `drop_rank` first, and never 0."""

    title: str
    text: str
    drop_rank: int = 0

    def __str__(self) -> str:
        return f"## {self.title}\n{self.text.rstrip()}\n"


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
    task = context.task
    dims = _bullets(domain_lines(task))
    args = _bullets([*map(argument_text, task.args), *map(scalar_text, task.scalars)])
    tolerance = ", ".join(
        f"{dtype} rtol {t.rtol} atol {t.atol}" for dtype, t in task.tolerance.items()
    )
    return Section(
        f"Task {task.name}",
        f"{task.summary}\nArguments (T is the dtype of the case):\n{args}\nLegal dims:\n{dims}\n"
        f"dtypes: {types_text(task) or ', '.join(task.dtypes)}; tolerance: {tolerance}\n"
        f"nvcc flags: {' '.join(task.flags)}\nDevice: {context.device}",
    )


def _contract(context: ChatContext, state: RunState) -> Section:
    return Section(
        "The launcher to export",
        f"```cuda\n{prototype(context.task)};\n```\n{codes_text(context.task)}\n"
        f"A complete example of the form, for another operation:\n```cuda\n{example()}```",
    )


def _headers(context: ChatContext, state: RunState) -> Section | None:
    texts = context.task.header_texts()
    if not texts:
        return None
    blocks = [f'#include "{name}":\n{fenced(text)}' for name, text in texts.items()]
    return Section("Headers of the task that a candidate may include", "\n".join(blocks), 4)


def _baseline(context: ChatContext, state: RunState) -> Section:
    drop_rank = 0 if state.best is None else 2
    title = f"The baseline ({context.tier})"
    return Section(title, fenced(context.baseline), drop_rank)


def _tests(context: ChatContext, state: RunState) -> Section | None:
    cases = [*context.task.check, *state.extra_cases]
    return Section("Cases that every candidate must pass", _bullets([c.named for c in cases]), 3)


def _score(context: ChatContext, state: RunState) -> Section | None:
    scores = state.scores
    if scores is None:
        return None
    dropped = [f"kills none, discarded: {case.named}" for case in scores.dropped]
    survived = [f"survived, possibly an equivalent mutant: {name}" for name in scores.survivors]
    return Section(
        "Score of your last cases, by seeded bugs of the baseline",
        f"{scores.summary()}\n{_bullets([*dropped, *survived])}",
    )


def _log(context: ChatContext, state: RunState) -> Section | None:
    if not state.rounds:
        return None
    lines = [_round_line(one) for one in state.rounds[-LOG_ROUNDS:]]
    if len(state.rounds) > LOG_ROUNDS:
        lines.insert(0, f"({len(state.rounds) - LOG_ROUNDS} earlier rounds omitted)")
    return Section("Earlier rounds", _bullets(lines), 1)


def _round_line(one: Round) -> str:
    results = [result for attempt in one.attempts if (result := _result(attempt))]
    return f"round {one.number}, {one_line(one.plan.title)}: {'; '.join(results) or 'no candidate'}"


def _result(attempt: Attempt) -> str:
    """The result of a candidate; empty if it was not built."""
    result = ""
    if attempt.evaluation:
        outcome = attempt.evaluation.outcome
        timed = f" {ratio_text(outcome.ratio)}" if isinstance(outcome, Timed) else ""
        result = f"{attempt.speaker}: {verdict(outcome)}{timed}"
    elif attempt.build:
        result = f"{attempt.speaker}: {verdict(attempt.build.result)}"
    if attempt.rejected is None:
        return result
    return f"{result}, rejected by the human: {one_line(attempt.rejected) or 'no reason given'}"


def _parent(context: ChatContext, state: RunState) -> Section | None:
    parent = state.parent
    source = state.sources.get(parent.candidate) if parent else None
    if parent is None or source is None:
        return Section("The source to change", "The baseline.")
    best, outcome = state.best, parent.outcome
    name = (
        "the best candidate so far"
        if best and best[0].candidate == parent.candidate
        else "a candidate"
    )
    speedup = f", {speed(outcome)}" if isinstance(outcome, Timed) else ""
    return Section(f"The source to change: {name}{speedup}", fenced(source))


def _plan(context: ChatContext, state: RunState) -> Section | None:
    if state.round is None:
        return None
    plan, source = state.round.plan, _parent_source(context, state)
    lines = ", ".join(map(str, lines_of(plan.anchor, source)))
    where = f"line {lines}" if lines else "not found in the source to change"
    moves = "" if plan.moves == "unsaid" else f", {plan.moves}"
    risk = f"\nRisk: {one_line(plan.risk)}" if plan.risk else ""
    return Section(
        f"The plan: {one_line(plan.title)}",
        f"Change: {one_line(plan.change)}\nWhy: {one_line(plan.why)}\n"
        f"Where: {one_line(plan.anchor)} ({where})\n"
        f"Metric that should change: {one_line(plan.metric)}{moves}{risk}",
    )


def _predictions(context: ChatContext, state: RunState) -> Section | None:
    judged = predictions(state.rounds)
    if not judged:
        return None
    lines = [score(judged).text, *(_prediction_line(one) for one in judged[-PREDICTION_ROUNDS:])]
    return Section("Predictions of plans and their results", _bullets(lines), 2)


def _prediction_line(one: Prediction) -> str:
    actual = "no correct kernel" if one.actual_ratio is None else ratio_text(one.actual_ratio)
    line = f"round {one.round}: predicted {ratio_text(one.predicted_ratio)}, actual {actual}"
    if one.before is None or one.after is None:
        return line
    predicted = "" if one.moves == "unsaid" else f" (predicted: {one.moves})"
    return f"{line}; {one_line(one.metric)} {number(one.before)} to {number(one.after)}{predicted}"


def source_to_edit(role: RoleName, context: ChatContext, state: RunState) -> str:
    """The source that edits apply to: the candidate to fix, or what the plan changes."""
    attempts = state.round.attempts if state.round else ()
    if acts_as(role, state) == "fixer" and attempts:
        return attempts[-1].kernel.source
    return _parent_source(context, state)


def _parent_source(context: ChatContext, state: RunState) -> str:
    """The source that the plan of the current round changes."""
    parent = state.round.parent if state.round else None
    source = state.sources.get(parent.candidate) if parent else None
    return context.baseline if source is None else source


def _failing(context: ChatContext, state: RunState) -> Section | None:
    if state.round is None or not state.round.attempts:
        return None
    attempt = state.round.attempts[-1]
    result = describe_build(attempt.build) if attempt.build else "not built yet"
    if attempt.evaluation:
        result = describe_evaluation(attempt.evaluation)
    return Section(
        "The candidate to fix",
        f"{fenced(attempt.kernel.source)}\nThe judge's report: {report(result)}",
    )


def _profile(context: ChatContext, state: RunState) -> Section | None:
    return _report("Profile of the source to change", state.parent) if state.parent else None


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
    return Section(title, judge_report(evaluation))


def judge_report(evaluation: Evaluation) -> str:
    """What the judge found about a candidate, as the chat is told it."""
    outcome = evaluation.outcome
    lines = [report(describe(outcome)), f"resources: {describe_resources(evaluation.resources)}"]
    if isinstance(outcome, Timed):
        lines += describe_times(evaluation)
        profile = outcome.profile
        why = one_line(profile.why)
        lines.append(f"bottleneck on {profile.case.named}: {profile.bottleneck}: {why}")
        lines += [f"- {metric_text(m)}: {m.words}" for m in telling(profile.metrics)]
    return "\n".join(lines)


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


SINGLE_REPLIES = {
    "planner": "A plan.",
    "coder": "A kernel: the whole source of the candidate that your plan asks for.",
    "fixer": "A kernel: the whole source of the candidate, fixed.",
}
SINGLE_EXTRA: dict[str, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "planner": (_other_report, _single_reply),
    "coder": (_single_reply,),
    "fixer": (_single_reply,),
}
"""Sections that a single agent gets in addition to those of the role it acts as."""

SECTIONS: dict[RoleName, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "tester": (_task, _baseline, _tests, _log, _score, _analysis),
    "planner": (_task, _baseline, _log, _predictions, _parent, _profile, _analysis),
    "coder": (_task, _contract, _headers, _baseline, _parent, _plan),
    "fixer": (_task, _contract, _headers, _plan, _failing),
    "profiler": (_task, _log, _predictions, _plan, _last_report),
    "single": (_task, _baseline),
}
