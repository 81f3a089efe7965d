"""What a turn of the chat is shown as: pure functions of the turn and of the state before it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from rich.text import Text

from astra_chat.agents.approval import describe_approval
from astra_chat.agents.evaluations import profile_of
from astra_chat.agents.plan_predictions import metric_of
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import (
    Analysis,
    Approval,
    Kernel,
    Pass,
    Plan,
    RunRequest,
    Speaker,
    TestSuite,
    Turn,
)
from astra_chat.display.evaluation_view import step_words
from astra_chat.tools.descriptions import (
    describe_build,
    describe_evaluation,
    describe_resources,
    metric_text,
    predicted_text,
    prediction,
    ratio_text,
    speed,
)
from astra_chat.tools.evaluation import BuildReport, Evaluation, Step
from astra_chat.tools.language import written_in
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import NOT_PROFILED, Profile, Timed, candidate_id
from astra_chat.tools.wording import counted
from astra_chat.transcript.events import Contradiction, RejectedReply, RepeatedRun

MAX_CHANGES = 8


def turn_lines(said: Turn, before: RunState, texts: Mapping[str, str], width: int) -> list[Text]:
    """`before`: the state that the turn was taken in; `texts`: those stored so far, by hash.
    `width`: columns of a line of source, which is cut there."""
    match said.payload:
        case RunRequest() as asked:
            return [Text(f"Make {asked.task} faster: {asked.summary}")]
        case TestSuite() | CaseScores() | Tuning() as tests:
            return suite_lines(tests)
        case Plan() as plan:
            return _plan_lines(plan, _parent(before))
        case Kernel() as kernel:
            return _kernel_lines(kernel, said.speaker, before, texts, width)
        case BuildReport() as report:
            style = "red" if failed(report) else ""
            return [
                Text(f"{report.candidate} {describe_build(report)}", style),
                _steps(report.steps),
            ]
        case Evaluation() as evaluation:
            return _evaluation_lines(evaluation, before)
        case Analysis() as analysis:
            return _analysis_lines(analysis, before)
        case Approval() as approval:
            return [Text(describe_approval(approval))]
        case Pass(words=words):
            return [Text(f"passes: {words}", "italic")]


def repeated_text(one: RepeatedRun, scripted: bool, rounds: int) -> str:
    """Whose replies a run repeats, and how many of its rounds where it has no more than `rounds`
    itself. `scripted`: it is the task's own recorded run, and a script is beside it."""
    kind = f"live run {one.run}" if one.answered_by else f"run {one.run}"
    who = one.answered_by or one.models
    part = f", the first {rounds} of its {one.rounds} rounds" if rounds < one.rounds else ""
    script = "; --models scripted plays the task's script" if scripted else ""
    return (
        f"recorded replies: {kind} of {one.started[:10]} ({who}){part}; every kernel is judged now,"
        f" on this machine{script}"
    )


def recorded_text(one: RepeatedRun) -> str:
    """The result of the run that is repeated: the first figure that there is, and no new one."""
    if one.ratio is None:
        return ""
    return (
        f"that run's result: candidate {one.best} at {one.basis} {ratio_text(one.ratio)} the"
        " baseline's speed; what follows is judged again"
    )


def chosen_text(decision: Decision | None, said: Turn) -> str:
    """Who chose the speaker of a turn."""
    if decision is None:
        return "decides" if said.speaker == "human" else "opens the chat"
    if len(decision.legal) == 1:
        return "chosen by rule"
    between = " or ".join(decision.legal)
    if decision.by == "model":
        return f"chosen by the selector's model between {between}"
    return f"chosen by rule: the selector's model named neither {between}"


def objection_text(objection: RejectedReply | Contradiction) -> str:
    """Why a reply was not taken as it came."""
    match objection:
        case RejectedReply(speaker=speaker, reason=reason):
            return f"{speaker}'s reply was sent back: {reason}"
        case Contradiction(speaker=speaker, reason=reason, stands=stands):
            came = "repeats its reply unchanged" if stands else "is asked to check"
            return f"{speaker} {came}: {reason}"


def _kernel_lines(
    kernel: Kernel, speaker: Speaker, before: RunState, texts: Mapping[str, str], width: int
) -> list[Text]:
    """The kernel's summary, and the first lines that differ from its parent."""
    parent, name = _parent_of(speaker, before, texts)
    changed = changes(parent, kernel.source)
    added = [line for line in changed if line.startswith("+")]
    counts = f"+{len(added)} -{counted(len(changed) - len(added), 'line')} against {name}"
    shown = [line for line in changed if not line[2:].startswith("//")]
    if len(shown) > MAX_CHANGES:
        shown = [line for line in shown if line.startswith("+")][:MAX_CHANGES]
    if kernel.edits:
        counts += f", given as {counted(kernel.edits, 'edit')}"
    name = f"{kernel.candidate}{written_in(kernel.source)}"
    lines = [Text(kernel.words), Text(f"candidate {name}: {counts}", "dim")]
    for line in shown:
        text = Text(f"  {line}", "green" if line.startswith("+") else "red")
        text.truncate(width - 2, overflow="ellipsis")
        lines.append(text)
    if len(shown) < len(changed):
        lines.append(
            Text(f"  and {counted(len(changed) - len(shown), 'more changed line')}", "dim")
        )
    return lines


def _parent_of(speaker: Speaker, before: RunState, texts: Mapping[str, str]) -> tuple[str, str]:
    """Source that a new kernel starts from, and what to call it."""
    name = before.parent_of(speaker)
    source = before.sources.get(name)
    if source is not None:
        return source, name
    source = next((t for t in texts.values() if candidate_id(t) == name), "")
    return source, "the baseline"


def _parent(before: RunState) -> str:
    """What the next plan changes."""
    parent, best = before.parent, before.best
    if parent is None or parent.candidate not in before.sources:
        return "the baseline"
    so_far = best is not None and best[0].candidate == parent.candidate
    return f"{parent.candidate}{', the best so far' if so_far else ''}"


def _evaluation_lines(evaluation: Evaluation, before: RunState) -> list[Text]:
    outcome = evaluation.outcome
    first = before.baseline is None
    name = f"baseline {evaluation.candidate}" if first else evaluation.candidate
    good = isinstance(outcome, Timed) and (first or outcome.verdict == "accepted")
    style = "green" if good else "yellow" if isinstance(outcome, Timed) else "red"
    lines: list[Text] = [Text(f"{name} is {describe_evaluation(evaluation)}", style)]
    if first:
        lines.append(Text("the baseline against itself: a check of the judge", "dim"))
    if evaluation.confirms:
        lines.append(Text(_confirmation_text(evaluation, before), "dim"))
    if isinstance(outcome, Timed):
        lines += [] if first or evaluation.confirms else prediction_lines(outcome, before)
        lines.append(Text(_profile_text(outcome.profile), "dim"))
    if evaluation.resources:
        lines.append(Text(f"compiled: {describe_resources(evaluation.resources)}", "dim"))
    return [*lines, _steps(evaluation.steps)]


def _confirmation_text(evaluation: Evaluation, before: RunState) -> str:
    if isinstance(evaluation.outcome, Timed):
        return "confirmation on fresh seeds: this is the result that is reported"
    won = (before.counted.get(evaluation.candidate) or (None, None))[1]
    figure = f" ({speed(won)})" if won else ""
    return (
        f"the winner{figure} failed its confirmation; the case that it failed is added to the"
        " run's cases, and its repair or the next best candidate is confirmed instead"
    )


def prediction_lines(timed: Timed, state: RunState) -> list[Text]:
    """The plan's prediction beside what came."""
    served = state.served
    if served is None:
        return []
    plan, parent = served.plan, served.parent
    before = parent.outcome.ratio if parent and isinstance(parent.outcome, Timed) else 1.0
    words = prediction(plan.predicted_ratio, timed, before)
    was = parent.outcome if parent and isinstance(parent.outcome, Timed) else None
    old, new = metric_of(was, plan), metric_of(timed, plan)
    if old and new:
        case = f" on {plan.case}" if plan.case else ""
        words += f"; {metric_text(old)}{case} before, {metric_text(new)} now"
    return [Text(words)]


def _analysis_lines(analysis: Analysis, before: RunState) -> list[Text]:
    profile = profile_of(before.evaluated)
    lines: list[Text] = [Text(analysis.words)]
    judged = f" (the judge: {profile.bottleneck})" if profile else ""
    lines.append(Text(f"bottleneck: {analysis.bottleneck}{judged}; next: {analysis.next}"))
    metrics = [m for name in analysis.evidence if profile and (m := profile.metric(name))]
    if profile and metrics:
        evidence = ", ".join(metric_text(metric) for metric in metrics)
        lines.append(Text(f"evidence, {profile.basis}: {evidence}", "dim"))
    return lines


def changes(before: str, after: str) -> list[str]:
    """Lines removed ("- ...") and added ("+ ..."), in order, without context and blank ones."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    body = [line for line in list(diff)[2:] if not line.startswith("@@")]
    return [f"{line[0]} {line[1:].strip()}" for line in body if line[1:].strip()]


def _plan_lines(plan: Plan, parent: str) -> list[Text]:
    moves = "" if plan.moves == "unsaid" else f" {plan.moves}"
    return [
        Text(plan.title, "bold"),
        Text(plan.change),
        Text(f"why: {plan.why}"),
        Text(f"where: {plan.anchor} (in {parent})", "dim"),
        Text(
            f"predicts {predicted_text(plan.predicted_ratio)} over its parent; {plan.metric}"
            f"{moves}",
            "dim",
        ),
        *([Text(f"risk: {plan.risk}", "dim")] if plan.risk else []),
    ]


def _profile_text(profile: Profile) -> str:
    limited = "" if profile.bottleneck == NOT_PROFILED else "bound by "
    return (
        f"{profile.basis} on {profile.case.label}: {profile.percent_of_limit:.0f} % of the limit,"
        f" {limited}{profile.bottleneck}: {profile.why}"
    )


def _steps(steps: tuple[Step, ...]) -> Text:
    """Seconds of every step: the clock fields of an evaluation."""
    return Text(", ".join(map(step_words, steps)), "dim")


MAX_CASES = 8


def suite_lines(suite: TestSuite | CaseScores | Tuning) -> list[Text]:
    """The proposed cases, their score, or what was tried of a candidate's constants."""
    if isinstance(suite, Tuning):
        return _tuning_lines(suite)
    return _scores_lines(suite) if isinstance(suite, CaseScores) else _suite_lines(suite)


def _tuning_lines(tuning: Tuning) -> list[Text]:
    rounds = tuning.halving.rounds if tuning.halving else ()
    spent = [f"{tuning.seconds:.0f} s", *(one.text for one in rounds)]
    return [Text(f"tunes {tuning.candidate}: {tuning.words}"), Text("; ".join(spent), "dim")]


def _suite_lines(suite: TestSuite) -> list[Text]:
    lines: list[Text] = [Text(suite.words)]
    lines += [Text(f"- {test.case().label}: {test.why}") for test in suite.cases[:MAX_CASES]]
    return lines + _more(len(suite.cases))


def _scores_lines(scores: CaseScores) -> list[Text]:
    """The score, case by case, and the seeded bugs that survived."""
    lines = [Text(scores.summary())]
    lines += [_case_line(scores, score) for score in scores.cases[:MAX_CASES]]
    lines += _more(len(scores.cases))
    return lines + [
        Text(f"survived, possibly an equivalent mutant: {name}", "dim") for name in scores.survivors
    ]


def _case_line(scores: CaseScores, score: CaseScore) -> Text:
    if score.case in scores.dropped:
        return Text(f"- {score.case.label}: detects none, discarded", "red")
    new = sum(name in scores.lived for name in score.kills)
    result = f"detects {len(score.kills)}" + (f", {new} of them new" if new else "")
    return Text(f"- {score.case.label}: {score.unjudged or result}", "dim")


def _more(count: int) -> list[Text]:
    return [Text(f"- and {count - MAX_CASES} more")] if count > MAX_CASES else []
