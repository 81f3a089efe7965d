"""A transcript's candidates, judged again on this machine; the file is not changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from astra_chat.agents.reply_errors import unusable_source
from astra_chat.display.tables import ResultTable
from astra_chat.tools.descriptions import describe, verdict
from astra_chat.tools.evaluation import Built, Evaluation
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Case, Device, Outcome, Timed, Value
from astra_chat.tools.wording import counted
from astra_chat.transcript.events import BuildDone, Judged
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import require_hashes, task_of
from astra_chat.transcript.turns import state_of, texts
from astra_vgpu.ground.errors import BadInput

SCHEMA = "astra-chat/rejudged/1"
ALIKE = 1.25
"""Times of the same kernel and case on the same device that are no farther apart may be honest."""


class Rejudged(Value):
    """One candidate, as it was judged then and now."""

    candidate: str
    confirms: bool
    """It was the confirmation of a winner, and was made again as one."""
    then_device: Device
    then: Outcome
    now_device: Device
    now: Outcome

    @property
    def differs(self) -> str:
        """What is not as it was, on the cases that both sides timed: the verdict (the outcome's
        kind, or accepted, tie, slower), or the times, where both are of the same device; "cases"
        where they timed none in common; "" where nothing differs."""
        then, now = self.compared
        both_timed = isinstance(then, Timed) and isinstance(now, Timed)
        if both_timed and not self.common:
            return "cases"
        if verdict(then) != verdict(now):
            return "verdict"
        alike = self.then_device.name == self.now_device.name
        if alike and isinstance(then, Timed) and isinstance(now, Timed):
            return "" if times_agree(then, now) else "times"
        return ""

    @property
    def common(self) -> tuple[str, ...]:
        """Labels of the cases that both sides timed."""
        return in_common(self.then, self.now)

    @property
    def compared(self) -> tuple[Outcome, Outcome]:
        """Then and now as they are compared: on the cases in common."""
        return on_common_cases(self.then, self.now)

    @property
    def cut(self) -> bool:
        """One side timed cases that the other did not, and they are left out."""
        return self.compared != (self.then, self.now)

    @property
    def agrees(self) -> bool:
        return not self.differs


def times_agree(then: Timed, now: Timed) -> bool:
    """Whether the ratio that was claimed, and what each case took, may be honest: of another day,
    another machine with this device, for estimates another version of the model."""
    low, high = mean_interval(now.cases)
    if not low <= ALIKE * then.ratio or not then.ratio <= ALIKE * high:
        return False
    known = {case.case.label: case for case in now.cases}
    pairs = [(case, known[case.case.label]) for case in then.cases if case.case.label in known]
    times = [(a.median_us, b.median_us) for a, b in pairs]
    times += [(a.baseline_us, b.baseline_us) for a, b in pairs]
    return all(a <= ALIKE * b and b <= ALIKE * a for a, b in times)


class Evaluating(Protocol):
    """What is needed of a judge here."""

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation: ...


@dataclass(frozen=True)
class RecordedCandidate:
    """What a transcript says about one candidate, and what is needed to judge it again."""

    candidate: str
    source: str
    outcome: Outcome
    device: Device
    confirms: bool
    cases: tuple[Case, ...]


def rejudge(
    transcript: Transcript,
    device: str = "auto",
    gpu: str | None = None,
    trust: bool = False,
    on_each: Callable[[Rejudged], None] = lambda _: None,
) -> list[Rejudged]:
    """Judge every candidate of a transcript again.

    The judge gets the recorded task, the tester's cases and the hidden ones with their seeds; it
    draws further hidden ones of its own. Raises BadInput where a recorded text is not the one that
    its hash names, and what the judge raises.
    """
    require_hashes(transcript)
    spec = gpu or (transcript.header.device.spec if device == "virtual" else None)
    chosen = pick_device(device, spec)
    options = transcript.options
    with (
        task_of(transcript, None) as task,
        judge_of(task, chosen, tier=options.tier, cases=options.cases, trust=trust) as judge,
    ):
        require_bounded_cases(transcript, task, chosen.kind, trust)
        found = []
        for one in recorded(transcript):
            legal = [case for case in one.cases if case not in task.check]
            found.append(_again(one, judge, legal))
            on_each(found[-1])
    return found


def recorded(transcript: Transcript) -> list[RecordedCandidate]:
    """The last word on each candidate, and on each that was confirmed its confirmation, in the
    order of the chat. Raises BadInput where there is none, or a source is missing."""
    sources = {sha[:12]: text for sha, text in texts(transcript.records).items()}
    extra = state_of(transcript.records).extra_cases
    found: dict[tuple[str, bool], RecordedCandidate] = {}
    for candidate, outcome, evaluation in _outcomes(transcript):
        if candidate not in sources:
            raise BadInput(f"{transcript.path}: the source of {candidate} is missing")
        if off := unusable_source(sources[candidate]):
            raise BadInput(f"{transcript.path}: {candidate}: {off}")
        confirms = evaluation is not None and evaluation.confirms
        found[candidate, confirms] = RecordedCandidate(
            candidate=candidate,
            source=sources[candidate],
            outcome=outcome,
            device=evaluation.device if evaluation else transcript.header.device,
            confirms=confirms,
            cases=_cases(extra, evaluation),
        )
    if not found:
        raise BadInput(f"{transcript.path}: it contains no judged candidate")
    return list(found.values())


def rejudged_text(found: Sequence[Rejudged]) -> RenderableType:
    """Table of recorded and new results, and a text where they differ."""
    rows = ResultTable(box=None, pad_edge=False)
    for name in ("candidate", "", "then", "now", ""):
        rows.add_column(name, no_wrap=True)
    for one in found:
        words = f"{one.differs.upper()} DIFFER{'S' * (one.differs == 'verdict')}"
        same = Text("same", "green") if one.agrees else Text(words, "bold red")
        note = "confirms" if one.confirms else ""
        then, now = one.compared
        rows.add_row(one.candidate, same, _cell(then), _cell(now), note)
    parts: list[RenderableType] = [
        Text(f"then: {_where(o.then_device for o in found)}"),
        Text(f"now: {_where(o.now_device for o in found)}"),
        rows,
    ]
    for one in found:
        if not one.agrees:
            then, now = one.compared
            parts.append(Text(f"{one.candidate} then: {describe(then)}"))
            parts.append(Text(f"{one.candidate} now: {describe(now)}"))
    parts += map(Text, dict.fromkeys(filter(None, map(_cases_words, found))))
    differ = sum(not one.agrees for one in found)
    end = f"{differ} of {len(found)} differ" if differ else f"all {len(found)} agree"
    return Group(*parts, Text(end, "bold"))


def rejudged_json(found: Sequence[Rejudged]) -> str:
    """Returns recorded and new results as one JSON document."""
    each = [rejudged_document(one) for one in found]
    return json.dumps({"schema": SCHEMA, "rejudged": each}, indent=2)


def rejudged_document(one: Rejudged) -> dict[str, object]:
    """Both sides, the cases that each timed, and what was compared."""
    then, now = one.compared
    return {
        **one.model_dump(mode="json"),
        "agrees": one.agrees,
        "differs": one.differs,
        "then_cases": list(timed_cases(one.then)),
        "now_cases": list(timed_cases(one.now)),
        "compared": {
            "cases": list(one.common),
            "then": {"verdict": verdict(then), "ratio": getattr(then, "ratio", None)},
            "now": {"verdict": verdict(now), "ratio": getattr(now, "ratio", None)},
        },
    }


def _cases_words(one: Rejudged) -> str:
    """Which timed cases a comparison rests on; "" where nothing was timed."""
    then, now = timed_cases(one.then), timed_cases(one.now)
    if not then or not now:
        return ""
    if then.keys() == now.keys():
        return f"timed then and now: {', '.join(then)}"
    return (
        f"timed {_counted(then)} then, {_counted(now)} now; verdicts and ratios cover the"
        f" {len(one.common)} in common: {', '.join(one.common) or 'none'}"
    )


def _counted(cases: Mapping[str, object]) -> str:
    return counted(len(cases), "case")


def _again(one: RecordedCandidate, judge: Evaluating, cases: Sequence[Case]) -> Rejudged:
    now = judge.evaluate(one.source, cases, fresh_seeds=one.confirms)
    return Rejudged(
        candidate=now.candidate,
        confirms=one.confirms,
        then_device=one.device,
        then=one.outcome,
        now_device=now.device,
        now=now.outcome,
    )


def _outcomes(transcript: Transcript) -> Iterator[tuple[str, Outcome, Evaluation | None]]:
    """Candidates that were judged, or that did not get through guard and build."""
    for record in transcript.records:
        match record.event:
            case Judged(evaluation=evaluation):
                yield evaluation.candidate, evaluation.outcome, evaluation
            case BuildDone(report=report) if not isinstance(report.result, Built):
                yield report.candidate, report.result, None


def _cases(extra: Sequence[Case], evaluation: Evaluation | None) -> tuple[Case, ...]:
    """The tester's cases, and those that the judge had drawn, that on which it failed included."""
    drawn = evaluation.check.own_draw if evaluation and evaluation.check else ()
    cases: list[Case] = []
    for case in (*extra, *drawn):
        if case not in cases:
            cases.append(case)
    return tuple(cases)


def _cell(outcome: Outcome) -> str:
    """Verdict, and the ratio over all cases with its interval."""
    if not isinstance(outcome, Timed):
        return verdict(outcome)
    low, high = mean_interval(outcome.cases)
    return f"{outcome.verdict} {outcome.ratio:.2f}x ({low:.2f} to {high:.2f})"


def _where(devices: Iterable[Device]) -> str:
    """The devices, each with what its times are."""
    basis = {"cuda": "measured on ", "virtual": "estimated by the "}
    return ", ".join(dict.fromkeys(basis[device.kind] + device.name for device in devices))


def timed_cases(outcome: Outcome) -> dict[str, AnyTime]:
    """Timed cases by their labels; their seeds may differ."""
    return {one.case.label: one for one in outcome.cases} if isinstance(outcome, Timed) else {}


def in_common(then: Outcome, now: Outcome) -> tuple[str, ...]:
    """Labels of the cases that both timed."""
    again = timed_cases(now)
    return tuple(label for label in timed_cases(then) if label in again)


def on_common_cases(then: Outcome, now: Outcome) -> tuple[Outcome, Outcome]:
    """Both as judged on the cases in common, with the weights of `then`; unchanged where one was
    not timed, both timed the same cases, or they have none in common."""
    before, after = timed_cases(then), timed_cases(now)
    if not (isinstance(then, Timed) and isinstance(now, Timed)) or before.keys() == after.keys():
        return then, now
    labels = in_common(then, now)
    if not labels:
        return then, now
    weights = {label: before[label].weight for label in labels}
    return (
        _judged_on(then, [before[label] for label in labels]),
        _judged_on(
            now,
            [after[label].model_copy(update={"weight": weights[label]}) for label in labels],
        ),
    )


def _judged_on(timed: Timed, cases: Sequence[AnyTime]) -> Timed:
    """Returns a timing with the cases given alone, judged by today's rule for verdicts."""
    ratio, verdict, why = judge_times(cases)
    changes = {"cases": tuple(cases), "ratio": ratio, "verdict": verdict, "why": why}
    return timed.model_copy(update=changes)
