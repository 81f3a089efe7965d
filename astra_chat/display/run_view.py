"""Shows a run from its records: the live run and its replay go through the same lines."""

from __future__ import annotations

import difflib

from rich.console import Console
from rich.text import Text

from astra_chat.agents.approval import describe_approval
from astra_chat.agents.rounds import failed
from astra_chat.agents.run_state import RunState, profile_of
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
from astra_chat.display.results_table import table
from astra_chat.display.spending_view import asked_words, judged_words, ledger_lines
from astra_chat.display.suite_view import suite_lines
from astra_chat.spending.budget import Budget, parse_budget
from astra_chat.tools.descriptions import (
    describe_build,
    describe_evaluation,
    describe_resources,
    metric_text,
    prediction,
    ratio_text,
)
from astra_chat.tools.evaluation import BuildReport, Evaluation, Step
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.types import Profile, Timed, candidate_id
from astra_chat.transcript.events import (
    Blob,
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Deviation,
    Ended,
    Header,
    Judged,
    Proposed,
    Record,
    RejectedReply,
    Resumed,
)
from astra_chat.transcript.ledger import gpu_seconds
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.summary import summarize
from astra_chat.transcript.turns import turn

STYLES = {
    "user": "bold",
    "tester": "bold cyan",
    "planner": "bold blue",
    "coder": "bold magenta",
    "fixer": "bold yellow",
    "executor": "bold green",
    "profiler": "bold cyan",
    "single": "bold magenta",
    "human": "bold",
}
INDENT = " " * 5
MOST_CHANGES = 8


class View:
    """Prints records as they come. Holds what earlier records said, nothing else."""

    def __init__(self, out: Console, quiet: bool = False) -> None:
        """`quiet` prints the end only, once `close` says that there is no later one."""
        self._out, self._quiet = out, quiet
        self._records: list[Record] = []
        self._decision: Decision | None = None
        self._state = RunState()
        self._texts: dict[str, str] = {}
        self._tokens, self._budget = Tokens(), Budget()
        self._evaluations, self._gpu_s = 0, 0.0
        self._ended: Ended | None = None

    def show(self, record: Record) -> None:
        event = record.event
        self._records.append(record)
        match event:
            case Header():
                self._budget = parse_budget(event.options.budget)
                if not self._quiet:
                    self._show_header(event, record.run)
            case Chosen(decision=decision):
                self._decision = decision
            case ChatMessage() | Proposed() | BuildDone() | Judged():
                said = turn(event, self._texts)
                if not self._quiet:
                    self._show_turn(record, said)
                self._state = self._state.after(said)
                if isinstance(event, Judged):
                    self._show_spent(event.evaluation, record.t)
            case Ended() if self._quiet:
                self._ended = event
            case Ended():
                self._show_end(event)
            case _:
                self._show_aside(record)

    def close(self) -> None:
        """Nothing comes any more."""
        if self._ended is not None:
            self._show_end(self._ended)

    def _show_aside(self, record: Record) -> None:
        """What is no turn: a line or two below the last one, or something to remember."""
        match record.event:
            case Blob(sha256=sha, text=text):
                self._texts[sha] = text
            case RejectedReply(speaker=speaker, reason=reason):
                self._line(f"{speaker}'s reply was sent back: {reason}", "yellow")
            case Contradiction(speaker=speaker, reason=reason, stands=stands):
                came = "stands by its reply, against this" if stands else "is asked to check"
                self._line(f"{speaker} {came}: {reason}", "yellow")
            case Deviation(candidate=candidate, expected=expected, found=found):
                self._line(
                    f"not as scripted: the script expected {expected} of {candidate},"
                    f" the judge found {found}; the run goes on with what was found",
                    "yellow",
                )
            case Resumed(started=started, options=options):
                self._decision, self._ended = None, None
                self._budget = parse_budget(options.budget)
                self._line(f"resumed on {started}", "bold")
            case ModelCall(tokens=tokens) as asked:
                self._tokens = self._tokens + tokens
                self._line(asked_words(asked, self._tokens, self._budget), "dim")

    def _show_header(self, header: Header, run: str) -> None:
        title = Text.assemble(
            (f"Astra run {run}", "bold"),
            f"  task {header.task.name}, baseline {header.options.tier},"
            f" models {header.options.models}, strategy {header.options.strategy}",
        )
        self._wrapped(title)
        versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
        self._wrapped(Text(f"on {header.device.name}; {versions}", "dim"))
        if (origin := header.origin) is not None:
            words = f"branched off run {origin.run} after turn {origin.turn}, round {origin.rounds}"
            self._out.print(Text(words, "bold"))

    def _show_turn(self, record: Record, said: Turn) -> None:
        self._out.print()
        self._out.print(
            Text.assemble(
                f"{record.turn:>3}  ",
                (said.speaker, STYLES[said.speaker]),
                (f"  {self._who_chose(said)}", "dim"),
                (f"  {record.t:.1f} s", "dim"),
            )
        )
        for line in self._lines(said):
            self._wrapped(line, INDENT)

    def _show_spent(self, evaluation: Evaluation, seconds: float) -> None:
        self._evaluations += 1
        self._gpu_s += gpu_seconds(evaluation)
        if words := judged_words(self._evaluations, self._gpu_s, seconds, self._budget):
            self._line(words, "dim")

    def _who_chose(self, said: Turn) -> str:
        decision, self._decision = self._decision, None
        if decision is None:
            return "decides" if said.speaker == "human" else "opens the chat"
        if len(decision.legal) == 1:
            return "(chosen by rule)"
        between = " or ".join(decision.legal)
        if decision.by == "model":
            return f"(chosen by the selector's model between {between})"
        return f"(chosen by rule: the selector's model gave no legal choice between {between})"

    def _lines(self, said: Turn) -> list[Text]:
        match said.payload:
            case RunRequest() as asked:
                return [Text(f"Make {asked.task} faster: {asked.summary}")]
            case TestSuite() | CaseScores() as tests:
                return suite_lines(tests)
            case Plan() as plan:
                return _plan_lines(plan, self._goes_on_from())
            case Kernel() as kernel:
                return self._kernel_lines(kernel, said.speaker)
            case BuildReport() as report:
                style = "red" if failed(report) else ""
                return [
                    Text(f"{report.candidate} {describe_build(report)}", style),
                    _steps(report.steps),
                ]
            case Evaluation() as evaluation:
                return self._evaluation_lines(evaluation)
            case Analysis() as analysis:
                return self._analysis_lines(analysis)
            case Approval() as approval:
                return [Text(describe_approval(approval))]
            case Pass(words=words):
                return [Text(f"passes: {words}", "italic")]

    def _kernel_lines(self, kernel: Kernel, speaker: Speaker) -> list[Text]:
        """What was written, and the first lines that differ from what it was made of."""
        before, name = self._made_of(speaker)
        changed = changes(before, kernel.source)
        added = [line for line in changed if line.startswith("+")]
        counts = f"+{len(added)} -{len(changed) - len(added)} lines against {name}"
        shown = [line for line in changed if not line[2:].startswith("//")]
        if len(shown) > MOST_CHANGES:
            shown = [line for line in shown if line.startswith("+")][:MOST_CHANGES]
        if kernel.edits:
            counts += f", given as {kernel.edits} edit{'s' * (kernel.edits > 1)}"
        lines = [Text(kernel.words), Text(f"candidate {kernel.candidate}: {counts}", "dim")]
        width = self._out.width - len(INDENT) - 2
        for line in shown:
            text = Text(f"  {line}", "green" if line.startswith("+") else "red")
            text.truncate(width, overflow="ellipsis")
            lines.append(text)
        if len(shown) < len(changed):
            lines.append(Text(f"  and {len(changed) - len(shown)} more changed lines", "dim"))
        return lines

    def _made_of(self, speaker: Speaker) -> tuple[str, str]:
        """Source that a new kernel starts from, and what to call it."""
        name = self._state.made_of(speaker)
        source = self._state.sources.get(name)
        if source is not None:
            return source, name
        source = next((t for t in self._texts.values() if candidate_id(t) == name), "")
        return source, "the baseline"

    def _goes_on_from(self) -> str:
        """What the next plan changes."""
        parent, best = self._state.parent, self._state.best
        if parent is None or parent.candidate not in self._state.sources:
            return "the baseline"
        so_far = best is not None and best[0].candidate == parent.candidate
        return f"{parent.candidate}{', the best so far' if so_far else ''}"

    def _evaluation_lines(self, evaluation: Evaluation) -> list[Text]:
        outcome = evaluation.outcome
        first = self._state.baseline is None
        name = f"baseline {evaluation.candidate}" if first else evaluation.candidate
        good = isinstance(outcome, Timed) and (first or outcome.verdict == "accepted")
        style = "green" if good else "yellow" if isinstance(outcome, Timed) else "red"
        lines: list[Text] = [Text(f"{name} is {describe_evaluation(evaluation)}", style)]
        if first:
            lines.append(Text("the baseline against itself shows that the judge works", "dim"))
        if evaluation.confirms:
            lines.append(Text("once more, on fresh seeds: this figure is the one reported", "dim"))
        if isinstance(outcome, Timed):
            lines += [] if first or evaluation.confirms else self._came_true(outcome)
            lines.append(Text(_profile_text(outcome.profile), "dim"))
        if evaluation.resources:
            lines.append(Text(f"compiled: {describe_resources(evaluation.resources)}", "dim"))
        return [*lines, _steps(evaluation.steps)]

    def _came_true(self, timed: Timed) -> list[Text]:
        """The plan's prediction beside what came."""
        if self._state.round is None:
            return []
        plan, parent = self._state.round.plan, self._state.round.parent
        before = parent.outcome.ratio if parent and isinstance(parent.outcome, Timed) else 1.0
        words = prediction(plan.predicted_ratio, timed, before)
        was = profile_of(parent)
        old = was.metric(plan.metric) if was else None
        new = timed.profile.metric(plan.metric)
        if old and new:
            words += f"; {metric_text(old)} before, {metric_text(new)} now"
        return [Text(words)]

    def _analysis_lines(self, analysis: Analysis) -> list[Text]:
        profile = profile_of(self._state.evaluated)
        lines: list[Text] = [Text(analysis.words)]
        judged = f" (the judge: {profile.bottleneck})" if profile else ""
        lines.append(Text(f"bottleneck: {analysis.bottleneck}{judged}; next: {analysis.next}"))
        metrics = [m for name in analysis.evidence if profile and (m := profile.metric(name))]
        if profile and metrics:
            evidence = ", ".join(metric_text(metric) for metric in metrics)
            lines.append(Text(f"evidence, {profile.basis}: {evidence}", "dim"))
        return lines

    def _show_end(self, ended: Ended) -> None:
        self._out.print()
        summary = summarize(self._records)
        if ended.reason != "error":
            for line in table(summary):
                self._out.print(line)
        style = "bold" if ended.reason not in ("error", "interrupted") else "bold red"
        self._wrapped(Text(ended.words, style))
        if ended.error:
            self._wrapped(Text(ended.error, "red"))
        if summary.predictions.plans:
            self._line(f"predictions: {summary.predictions.words}", "dim")
        for line in ledger_lines(summary.spent, summary.seconds):
            self._line(line, "dim")
        if ended.seed:
            self._line(f"seed: {ended.seed}", "dim")

    def _line(self, words: str, style: str = "") -> None:
        if not self._quiet:
            self._wrapped(Text(words, style), INDENT)

    def _wrapped(self, text: Text, indent: str = "") -> None:
        """Wrapped, and without the blanks at line ends that rich leaves."""
        for line in text.wrap(self._out, self._out.width - len(indent)):
            line.rstrip()
            self._out.print(Text(indent) + line)


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
            f"predicts {ratio_text(plan.predicted_ratio)} over its parent, by {plan.metric}{moves}",
            "dim",
        ),
        *([Text(f"risk: {plan.risk}", "dim")] if plan.risk else []),
    ]


def _profile_text(profile: Profile) -> str:
    return (
        f"{profile.basis} on {profile.case.label}: {profile.percent_of_limit:.0f} % of the limit,"
        f" bound by {profile.bottleneck}: {profile.why}"
    )


def _steps(steps: tuple[Step, ...]) -> Text:
    """Seconds of every step: the clock fields of an evaluation."""
    return Text(
        ", ".join(
            f"{step.name} {step.seconds:.1f} s" + (f" ({step.note})" if step.note else "")
            for step in steps
        ),
        "dim",
    )
