"""The prompt of a turn: a pure function of the state, and bounded.

The stable part (task, contract, baseline) comes first, so that model servers can cache it; what
changes comes last, the place in the chat at the very end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from astra_chat.agents.edits import lines_of
from astra_chat.agents.plan_predictions import Prediction, predictions, score
from astra_chat.agents.roles import example
from astra_chat.agents.rounds import Attempt, Round
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import MODEL_ROLES, Position, RoleName
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
from astra_chat.tools.task.folder import Arg, Scalar, Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.text import fenced, one_line, report
from astra_chat.tools.types import Timed

MOST_CHARACTERS = 64_000
"""A prompt stays below this unless a single source is longer by itself."""
LOG_ROUNDS = 12
LEDGER_ROUNDS = 4


@dataclass(frozen=True)
class ChatContext:
    """What does not change during a chat."""

    task: Task
    baseline: str
    """Source of the baseline tier that is to be beaten."""
    tier: str
    device: str
    roles: tuple[RoleName, ...] = MODEL_ROLES
    """Roles that models play in this chat."""


@dataclass(frozen=True)
class Section:
    """A part of a prompt; the one with the highest `spare` is left out first, 0 never."""

    title: str
    text: str
    spare: int = 0

    def __str__(self) -> str:
        return f"## {self.title}\n{self.text.rstrip()}\n"


def brief(role: RoleName, setting: ChatContext, state: RunState) -> str:
    """What a role is told in this turn, besides its standing instructions."""
    acting = acts_as(role, state)
    makers = SECTIONS[acting]
    if role == "single":
        makers = (*makers, *SINGLE_BESIDES.get(acting, ()))
    sections = [s for make in makers if (s := make(setting, state)) is not None]
    place = stamp(place_of(role, state))
    while len(text := "\n".join([*map(str, sections), place])) > MOST_CHARACTERS:
        spare = max(sections, key=lambda section: section.spare)
        if spare.spare == 0:
            break
        sections.remove(spare)
    return text


def place_of(role: RoleName, state: RunState) -> Position:
    """Where a role speaks that speaks next, as the last line of its prompt says."""
    acting = acts_as(role, state)
    place = state.position(acting)
    if role != "single" or acting == "single":
        return place
    attempt = {"planner": 0, "coder": 1}.get(acting, place.attempt + 1)
    return Position(round=place.round, attempt=attempt)


def _wanted(setting: ChatContext, state: RunState) -> Section:
    """What the single agent has to do now."""
    return Section("Wanted now", WANTED.get(acts_as("single", state), "Nothing: pass."))


def stamp(position: Position) -> str:
    """The last line of every prompt: where in the chat it is asked."""
    return f"Turn: round {position.round}, attempt {position.attempt}."


def read_stamp(prompt: str) -> Position | None:
    """The place in the chat that a prompt names; None if it names none."""
    found = re.findall(r"^Turn: round (\d+), attempt (\d+)\.$", prompt, re.MULTILINE)
    return Position(round=int(found[-1][0]), attempt=int(found[-1][1])) if found else None


def _task(setting: ChatContext, state: RunState) -> Section:
    task = setting.task
    dims = "\n".join(
        f"- {name}: {dim.min} to {dim.max}"
        + (f", whole units of {dim.multiple_of_bytes} bytes" if dim.multiple_of_bytes > 1 else "")
        for name, dim in task.dims.items()
    )
    args = "\n".join([*map(_arg, task.args), *map(_scalar, task.scalars)])
    tolerance = ", ".join(
        f"{dtype} rtol {t.rtol} atol {t.atol}" for dtype, t in task.tolerance.items()
    )
    return Section(
        f"Task {task.name}",
        f"{task.summary}\nArguments (T is the dtype of the case):\n{args}\nLegal dims:\n{dims}\n"
        f"dtypes: {', '.join(task.dtypes)}; tolerance: {tolerance}\n"
        f"nvcc flags: {' '.join(task.flags)}\nJudged on: {setting.device}",
    )


def _arg(arg: Arg) -> str:
    apart = f", rows {arg.name}_stride elements apart (a row or more)" if arg.strided else ""
    numbers = f", any numbers up to {arg.largest:g}" if arg.largest else ""
    return (
        f"- {arg.name}: {arg.dtype} [{', '.join(arg.shape)}], {arg.access},"
        f" at any multiple of {arg.min_alignment_bytes} bytes{apart}{numbers}"
    )


def _scalar(scalar: Scalar) -> str:
    when = "in most cases, or what else the caller gives" if scalar.varies else "in every case"
    when += f", {scalar.range[0]:g} to {scalar.range[1]:g}" if scalar.range else ""
    return f"- {scalar.name}: {scalar.type}, {scalar.value:g} {when}"


def _contract(setting: ChatContext, state: RunState) -> Section:
    return Section(
        "The launcher you export",
        f"```cuda\n{prototype(setting.task)};\n```\ndtype: 0 float32, 1 float16, 2 bfloat16.\n"
        f"A complete example of the form, for another operation:\n```cuda\n{example()}```",
    )


def _headers(setting: ChatContext, state: RunState) -> Section | None:
    texts = setting.task.header_texts()
    if not texts:
        return None
    blocks = [f'#include "{name}":\n{fenced(text)}' for name, text in texts.items()]
    return Section("Headers of the task that a candidate may include", "\n".join(blocks), 4)


def _baseline(setting: ChatContext, state: RunState) -> Section:
    spare = 0 if state.best is None else 2
    title = f"The baseline to beat ({setting.tier})"
    return Section(title, fenced(setting.baseline), spare)


def _tests(setting: ChatContext, state: RunState) -> Section | None:
    cases = [*setting.task.check, *state.extra_cases]
    return Section("Cases that every candidate must pass", _bullets([c.label for c in cases]), 3)


def _score(setting: ChatContext, state: RunState) -> Section | None:
    scores = state.scores
    if scores is None:
        return None
    dropped = [f"kills none, not kept: {case.label}" for case in scores.dropped]
    lived = [f"lives, perhaps no bug: {name}" for name in scores.survivors]
    return Section(
        "The score of your last cases, by seeded bugs of the baseline",
        f"{scores.summary()}\n{_bullets([*dropped, *lived])}",
    )


def _log(setting: ChatContext, state: RunState) -> Section | None:
    if not state.rounds:
        return None
    lines = [_round_line(one) for one in state.rounds[-LOG_ROUNDS:]]
    if len(state.rounds) > LOG_ROUNDS:
        lines.insert(0, f"({len(state.rounds) - LOG_ROUNDS} earlier rounds left out)")
    return Section("What was tried", _bullets(lines), 1)


def _round_line(one: Round) -> str:
    results = [result for attempt in one.attempts if (result := _result(attempt))]
    return f"round {one.number}, {one_line(one.plan.title)}: {'; '.join(results) or 'no candidate'}"


def _result(attempt: Attempt) -> str:
    """What became of a candidate; nothing if it was not even built."""
    found = ""
    if attempt.evaluation:
        outcome = attempt.evaluation.outcome
        timed = f" {ratio_text(outcome.ratio)}" if isinstance(outcome, Timed) else ""
        found = f"{attempt.speaker}: {verdict(outcome)}{timed}"
    elif attempt.build:
        found = f"{attempt.speaker}: {verdict(attempt.build.result)}"
    if attempt.rejected is None:
        return found
    return f"{found}, rejected by the human: {one_line(attempt.rejected) or 'no reason given'}"


def _parent(setting: ChatContext, state: RunState) -> Section | None:
    parent = state.parent
    source = state.sources.get(parent.candidate) if parent else None
    if parent is None or source is None:
        return Section("The source to change", "The baseline.")
    best, outcome = state.best, parent.outcome
    name = "the best so far" if best and best[0].candidate == parent.candidate else "a candidate"
    fast = f", {speed(outcome)}" if isinstance(outcome, Timed) else ""
    return Section(f"The source to change: {name}{fast}", fenced(source))


def _plan(setting: ChatContext, state: RunState) -> Section | None:
    if state.round is None:
        return None
    plan, source = state.round.plan, _parent_source(setting, state)
    lines = ", ".join(map(str, lines_of(plan.anchor, source)))
    where = f"line {lines}" if lines else "not a text of the source to change"
    moves = "" if plan.moves == "unsaid" else f", {plan.moves}"
    risk = f"\nRisk: {one_line(plan.risk)}" if plan.risk else ""
    return Section(
        f"The plan: {one_line(plan.title)}",
        f"Change: {one_line(plan.change)}\nWhy: {one_line(plan.why)}\n"
        f"Where: {one_line(plan.anchor)} ({where})\n"
        f"Should move: {one_line(plan.metric)}{moves}{risk}",
    )


def _ledger(setting: ChatContext, state: RunState) -> Section | None:
    judged = predictions(state.rounds)
    if not judged:
        return None
    lines = [score(judged).words, *(_prediction_line(one) for one in judged[-LEDGER_ROUNDS:])]
    return Section("What plans predicted, and what came", _bullets(lines), 2)


def _prediction_line(one: Prediction) -> str:
    found = "no right kernel" if one.found_ratio is None else ratio_text(one.found_ratio)
    line = f"round {one.round}: predicted {ratio_text(one.predicted_ratio)}, found {found}"
    if one.before is None or one.after is None:
        return line
    said = "" if one.moves == "unsaid" else f" (said: {one.moves})"
    return f"{line}; {one_line(one.metric)} {number(one.before)} to {number(one.after)}{said}"


def changed(role: RoleName, setting: ChatContext, state: RunState) -> str:
    """What edits are made in: the candidate to repair, or what the plan changes."""
    attempts = state.round.attempts if state.round else ()
    if acts_as(role, state) == "fixer" and attempts:
        return attempts[-1].kernel.source
    return _parent_source(setting, state)


def _parent_source(setting: ChatContext, state: RunState) -> str:
    """What the plan of the round under way changes."""
    parent = state.round.parent if state.round else None
    source = state.sources.get(parent.candidate) if parent else None
    return setting.baseline if source is None else source


def _failing(setting: ChatContext, state: RunState) -> Section | None:
    if state.round is None or not state.round.attempts:
        return None
    attempt = state.round.attempts[-1]
    found = describe_build(attempt.build) if attempt.build else "not built yet"
    if attempt.evaluation:
        found = describe_evaluation(attempt.evaluation)
    return Section(
        "The candidate to repair", f"{fenced(attempt.kernel.source)}\nThe judge: {report(found)}"
    )


def _profile(setting: ChatContext, state: RunState) -> Section | None:
    return _report("Profile of the source to change", state.parent) if state.parent else None


def _analysis(setting: ChatContext, state: RunState) -> Section | None:
    """What the profiler said last, and of what."""
    analysis, about, parent = state.analysis, state.analysed, state.parent
    if analysis is None:
        return None
    same = about is not None and parent is not None and about.candidate == parent.candidate
    what = "the source to change" if same else "the last candidate, which is not the one to change"
    return Section(
        f"The profiler on {what}",
        f"Said: {one_line(analysis.words)}\nBottleneck: {one_line(analysis.bottleneck)}",
        2,
    )


def _other_report(setting: ChatContext, state: RunState) -> Section | None:
    """The judge on the last candidate, where that is not the source to change."""
    last, parent = state.evaluated, state.parent
    same = last is not None and parent is not None and last.candidate == parent.candidate
    return None if same else _last_report(setting, state)


def _last_report(setting: ChatContext, state: RunState) -> Section | None:
    return _report("The judge on the last candidate", state.evaluated) if state.evaluated else None


def _report(title: str, evaluation: Evaluation) -> Section:
    outcome = evaluation.outcome
    lines = [report(describe(outcome)), f"resources: {describe_resources(evaluation.resources)}"]
    if isinstance(outcome, Timed):
        lines += describe_times(evaluation)
        profile = outcome.profile
        why = one_line(profile.why)
        lines.append(f"bottleneck on {profile.case.label}: {profile.bottleneck}: {why}")
        lines += [f"- {metric_text(m)}: {m.words}" for m in telling(profile.metrics)]
    return Section(title, "\n".join(lines))


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


WANTED = {
    "planner": "A plan.",
    "coder": "A kernel: the whole source of the candidate that your plan asks for.",
    "fixer": "A kernel: the whole source of the candidate, repaired.",
}
SINGLE_BESIDES: dict[str, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "planner": (_other_report, _wanted),
    "coder": (_wanted,),
    "fixer": (_wanted,),
}
"""What a single agent is told besides what the role is told whose place it takes."""

SECTIONS: dict[RoleName, tuple[Callable[[ChatContext, RunState], Section | None], ...]] = {
    "tester": (_task, _baseline, _tests, _log, _score, _analysis),
    "planner": (_task, _baseline, _log, _ledger, _parent, _profile, _analysis),
    "coder": (_task, _contract, _headers, _baseline, _parent, _plan),
    "fixer": (_task, _contract, _headers, _plan, _failing),
    "profiler": (_task, _log, _ledger, _plan, _last_report),
    "single": (_task, _baseline),
}
