"""Shows a run from its records: the live run and its replay go through the same lines.

While a run continues, a terminal shows a turn in two or three lines. The whole text of the roles is
in --verbose and in `astra-chat replay`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Analysis, Kernel, Plan, RunRequest, TestSuite, Turn
from astra_chat.display.results_table import table
from astra_chat.display.run_board import board
from astra_chat.display.spending_view import asked_words, judged_words, ledger_lines
from astra_chat.display.turn_view import (
    chosen_text,
    objection_text,
    prediction_lines,
    recorded_text,
    repeated_text,
    turn_lines,
)
from astra_chat.spending.budget import Budget, parse_budget
from astra_chat.tools.descriptions import describe_build, predicted_text, speed
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.task.tiers import baseline_name
from astra_chat.tools.text import one_line
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Timed
from astra_chat.tools.wording import counted
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
LIST_MARK = "- "
SHORTENED = (
    "agents' messages are shortened here: use --verbose or `astra-chat replay` to see them in full"
)
SENTENCE_END = re.compile(r"(?<=\.) (?=[A-Z])")
"""Between two sentences of a run's last message."""


class View:
    """Prints records as they come. Holds what earlier records said, nothing else."""

    def __init__(self, out: Console, quiet: bool = False, brief: bool = False) -> None:
        """`quiet` prints the end only, once `close` says that there is no later one; `brief` a few
        lines of each turn, and the rounds as a table at the end."""
        self._out, self._quiet, self._hidden = out, quiet, False
        self._lines = brief_lines if brief else turn_lines
        self._brief = brief
        self._records: list[Record] = []
        self._decision: Decision | None = None
        self.state = RunState()
        """What the run knows so far."""
        self._texts: dict[str, str] = {}
        self._tokens, self._budget = Tokens(), Budget()
        self._evaluations, self._gpu_s = 0, 0.0
        self._ended: Ended | None = None

    def show(self, record: Record, *, hidden: bool = False) -> None:
        """`hidden`: it is taken in and not printed."""
        event, self._hidden = record.event, hidden
        self._records.append(record)
        match event:
            case Header():
                self._budget = parse_budget(event.options.budget)
                self.state = RunState(event.options.limits)
                if not self._silent:
                    self._show_header(event, record.run)
            case Chosen(decision=decision):
                self._decision = decision
            case ChatMessage() | Proposed() | BuildDone() | Judged():
                said = turn(event, self._texts)
                if not self._silent:
                    self._show_turn(record, said)
                self.state = self.state.after(said)
                self._show_spent(said, record.t)
            case Ended() if hidden:
                pass
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
            case RejectedReply() | Contradiction() as objection:
                self._line(objection_text(objection), "yellow")
            case Deviation(candidate=candidate, expected=expected, found=found):
                self._line(
                    f"turn {record.turn} differs from the {self._expecting}: for {candidate},"
                    f" {expected} was expected, but the judge found {found}; the run continues"
                    " with that result",
                    "yellow",
                )
            case Resumed(started=started, options=options):
                self._decision, self._ended = None, None
                self._budget = parse_budget(options.budget)
                self.state = replace(self.state, limits=options.limits)
                self._line(f"resumed on {started}", "bold")
            case ModelCall(tokens=tokens) as asked:
                self._tokens = self._tokens + tokens
                self._line(asked_words(asked, self._tokens, self._budget), "dim")

    def _show_header(self, header: Header, run: str) -> None:
        title = Text.assemble(
            (f"Astra run {run}", "bold"),
            f"  task {header.task.name}, baseline"
            f" {baseline_name(header.task.name, header.options.tier)},"
            f" models {header.options.models}, strategy {header.options.strategy}",
        )
        self._wrapped(title)
        versions = ", ".join(f"{name} {version}" for name, version in header.versions.items())
        more = "" if self._brief else f"; {versions}"
        self._wrapped(Text(f"on {header.device.name}{more}", "dim"))
        if header.repeats is not None:
            own = header.options.models == "transcript"
            scripted = own and any(name.startswith("script/") for name in header.task.files)
            words = repeated_text(header.repeats, scripted, header.options.rounds)
            self._wrapped(Text(words, "bold"))
            if words := recorded_text(header.repeats):
                self._wrapped(Text(words, "bold green"))
        if (origin := header.origin) is not None:
            words = (
                f"branched from run {origin.run} after turn {origin.turn}, round {origin.rounds}"
            )
            self._out.print(Text(words, "bold"))
        if self._brief:
            self._wrapped(Text(SHORTENED, "dim"))

    def _show_turn(self, record: Record, said: Turn) -> None:
        self._out.print()
        self._out.print(
            Text.assemble(
                f"{record.turn:>3}  ",
                (said.speaker, STYLES[said.speaker]),
                ("" if self._brief else f"  {self._who_chose(said)}", "dim"),
                (f"  {record.t:.1f} s", "dim"),
            )
        )
        width = self._out.width - len(INDENT)
        for line in self._lines(said, self.state, self._texts, width):
            self._wrapped(line, INDENT)

    def _show_spent(self, said: Turn, seconds: float) -> None:
        """After an evaluation, or tuning with measurements."""
        match said.payload:
            case Evaluation() as evaluation:
                self._evaluations += 1
                self._gpu_s += gpu_seconds(evaluation)
            case Tuning(measured=measured, gpu_s=gpu_s):
                self._evaluations += measured
                self._gpu_s += gpu_s
            case _:
                return
        if words := judged_words(self._evaluations, self._gpu_s, seconds, self._budget):
            self._line(words, "dim")

    def _who_chose(self, said: Turn) -> str:
        decision, self._decision = self._decision, None
        chosen = chosen_text(decision, said)
        return chosen if decision is None else f"({chosen})"

    def _show_end(self, ended: Ended) -> None:
        if not self._quiet:
            self._out.print()
        summary = summarize(self._records)
        if self._brief and self.state.rounds:
            self._out.print(board(self.state, len(self.state.sources)))
            self._out.print()
        if ended.reason != "error":
            for line in table(summary):
                self._out.print(line)
        style = "bold" if ended.reason not in ("error", "interrupted") else "bold red"
        for sentence in SENTENCE_END.split(ended.words):
            self._wrapped(Text(sentence, style))
        if ended.error:
            self._wrapped(Text(ended.error, "red"))
        ledger = ledger_lines(summary.spent, summary.seconds, summary.time_use)
        if summary.predictions.plans and not self._brief:
            self._line(f"predictions: {summary.predictions.text}", "dim")
        for line in ledger[-1:] if self._brief else ledger:
            self._line(line, "dim")
        if ended.seed:
            self._line(f"seed: {ended.seed}", "dim")

    @property
    def _expecting(self) -> str:
        """What a kernel's outcome was expected by."""
        head = self._records[0].event
        return "recorded run" if isinstance(head, Header) and head.repeats else "script"

    @property
    def _silent(self) -> bool:
        return self._quiet or self._hidden

    def _line(self, words: str, style: str = "") -> None:
        if not self._silent:
            self._wrapped(Text(words, style), INDENT)

    def _wrapped(self, text: Text, indent: str = "") -> None:
        """Wrapped, without the blanks at line ends that rich leaves; of a list's entry the further
        lines are below its words."""
        hang = LIST_MARK if text.plain.startswith(LIST_MARK) else ""
        width = self._out.width - len(indent) - len(hang)
        for number, line in enumerate(text[len(hang) :].wrap(self._out, width)):
            line.rstrip()
            self._out.print(Text(indent + (" " * len(hang) if number else hang), text.style) + line)


SENTENCE = re.compile(r"(?<=[.;:]) ")
MOST = 150
"""Characters of a role's words."""


def brief_lines(said: Turn, before: RunState, texts: Mapping[str, str], width: int) -> list[Text]:
    """The turn in short; the parameters are those of `turn_lines`."""
    match said.payload:
        case RunRequest() as asked:
            return [Text(f"Make {asked.task} faster: {shortened(asked.summary)}")]
        case TestSuite() as suite:
            return [Text(f"{counted(len(suite.cases), 'case')}: {shortened(suite.words)}")]
        case CaseScores() as scores:
            return [Text(scores.summary())]
        case Tuning() as tuning:
            return [Text(f"tunes {tuning.candidate}: {tuning.words}")]
        case Plan() as plan:
            return [
                Text(shortened(plan.title), "bold"),
                Text(f"predicts {predicted_text(plan.predicted_ratio)} over its parent", "dim"),
            ]
        case Kernel() as kernel:
            whole = turn_lines(said, before, texts, width)
            return [Text(shortened(kernel.words)), whole[1]]
        case BuildReport() as report:
            return _build(report)
        case Evaluation() as evaluation:
            return _evaluation(evaluation, before)
        case Analysis() as analysis:
            return [
                Text(shortened(analysis.words)),
                Text(f"bottleneck: {analysis.bottleneck}; next: {analysis.next}", "dim"),
            ]
        case _:
            return turn_lines(said, before, texts, width)


def shortened(words: str) -> str:
    """The first sentence, or as much of it as there is room for."""
    line = one_line(words)
    first = SENTENCE.split(line)[0].rstrip(";:")
    if len(first) > MOST:
        return f"{first[:MOST].rsplit(' ', 1)[0]} ..."
    return first if first == line else f"{first} [...]"


def _build(report: BuildReport) -> list[Text]:
    """Registers from least to most, or the first lines of what is wrong."""
    if not isinstance(report.result, Built):
        first, *more = describe_build(report).splitlines()
        return [Text(f"{report.candidate} {first}", "red"), *map(Text, more[:2])]
    used = sorted(one.registers for one in report.result.resources)
    span = f", {used[0]} to {used[-1]} registers" if used else ""
    return [Text(f"{report.candidate} builds: {counted(len(used), 'kernel')}{span}")]


def _evaluation(evaluation: Evaluation, before: RunState) -> list[Text]:
    """Its outcome in one line, then the plan's prediction beside it."""
    timed, first = evaluation.outcome, before.baseline is None
    if not isinstance(timed, Timed):
        return turn_lines(Turn("executor", evaluation), before, {}, 0)[: 1 + evaluation.confirms]
    name = f"baseline {evaluation.candidate}" if first else evaluation.candidate
    fresh = ", confirmed on fresh seeds" if evaluation.confirms else ""
    case = max(timed.cases, key=lambda one: one.weight)
    line = f"{name}: correct on {counted(timed.correct.cases, 'case')}"
    times = f"{case.case.label}: {timed.basis} baseline {case.baseline_us:.2f} us"
    if not first:
        line += f"; {speed(timed)}{fresh}: {timed.verdict}"
        times += f", candidate {case.median_us:.2f} us, ratio {case.ratio:.2f}x"
    good = first or timed.verdict == "accepted"
    lines = [Text(line, "green" if good else "yellow"), Text(times)]
    return lines + ([] if first or evaluation.confirms else prediction_lines(timed, before))
