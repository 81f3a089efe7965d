"""What the page shows of one run, derived from its transcript; the templates only format it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from astra_chat.display.results_table import where
from astra_chat.report import case_plots, part_plots, round_plots
from astra_chat.report.figures import Drawing
from astra_chat.report.highlight import highlighted
from astra_chat.report.rounds import Candidate, Round, rounds_of
from astra_chat.report.turns import Texts, texts_of
from astra_chat.tools.evaluation import CaseLaunches, Evaluation
from astra_chat.tools.task.tiers import baseline_name
from astra_chat.tools.text import one_line
from astra_chat.tools.types import AnyTime, Basis, Correct, Timed
from astra_chat.tools.wording import counted
from astra_chat.transcript.events import BROKEN_OFF, Header, Resumed, TurnEvent, Unknown
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.recorded_task import baseline_text, task_of
from astra_chat.transcript.summary import RunSummary, Timing, summarize
from astra_chat.transcript.turns import texts, turns_of
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import spec

DRAWINGS = ("rounds", "predictions", "cases", "parts", "roofline", "errors", "steps", "tokens")


@dataclass(frozen=True)
class ErrorRow:
    """How far a candidate's results are from the oracle's."""

    candidate: str
    verdict: str
    correct: Correct | None
    """None: it is wrong."""
    evaluation: Evaluation


@dataclass(frozen=True)
class Gain:
    """What one step of the search gained over the candidate that it changed."""

    round: int
    title: str
    ratio: float


@dataclass(frozen=True)
class RunPage:
    """One run."""

    id: str
    """Prefix of all anchors."""
    path: str
    header: Header
    summary: RunSummary
    basis: Basis
    where: str
    """ "measured on NVIDIA H200" or "estimated for NVIDIA H200"."""
    over: bool
    """Ended for good: nothing is left to be resumed."""
    rounds: list[Round]
    texts: Texts
    drawings: dict[str, Drawing | None]
    """Plots by name; None where there is nothing to draw."""
    errors: list[ErrorRow]
    winner: list[Markup]
    """Lines of its source; none where nothing was faster."""
    launches: tuple[CaseLaunches, ...]
    environment: list[tuple[str, str]]
    left_out: list[str]
    """What this page does not show, and why."""
    baseline: Timed | None
    """The baseline against itself."""
    best: Timed | None
    """The last timing of the winner."""

    @property
    def start(self) -> str:
        """The baseline's name: a tier of Astra's own tasks, else its file."""
        return baseline_name(self.summary.task, self.summary.options.tier)

    @property
    def timing(self) -> Timing | None:
        """The best candidate's, else the baseline's against itself."""
        return self.summary.best or self.summary.baseline

    @property
    def candidates(self) -> list[Candidate]:
        return [one for each in self.rounds for one in each.candidates]

    @property
    def outcomes(self) -> list[tuple[str, int]]:
        """How often each verdict came, in the order of the chat."""
        words = [one.verdict for one in self.candidates]
        return [(word, words.count(word)) for word in dict.fromkeys(words)]

    @property
    def gains(self) -> list[Gain]:
        """The steps from the baseline to the winner, by what each gained in the search, the largest
        first; none without a winner."""
        best = self.summary.best
        return (
            sorted(_gains(self.summary, best.candidate), key=lambda one: -one.ratio) if best else []
        )


def _gains(summary: RunSummary, candidate: str) -> Iterator[Gain]:
    """From the winner back to the baseline, each candidate once."""
    made = {
        attempt.candidate: (one, attempt.ratio)
        for one in reversed(summary.rounds)
        for attempt in one.attempts
        if attempt.ratio
    }
    while candidate in made:
        one, ratio = made.pop(candidate)
        before = made[one.parent][1] if one.parent in made else 1.0
        yield Gain(one.number, one.title, ratio / before)
        candidate = one.parent


def run_page(transcript: Transcript, identifier: str) -> RunPage:
    """Returns the page of a run. Raises BadInput where the transcript has no source of the
    baseline."""
    header, summary = transcript.header, summarize(transcript.records)
    turns = turns_of(transcript.records)
    numbers = [r.turn for r in transcript.records if isinstance(r.event, TurnEvent)]
    rounds = rounds_of(turns, baseline_text(transcript), numbers)
    basis: Basis = "measured" if header.device.kind == "cuda" else "estimated"
    left_out: list[str] = []
    if transcript.torn:
        left_out.append("the last line of the transcript, which was cut off")
    if unknown := [r.event.kind for r in transcript.records if isinstance(r.event, Unknown)]:
        kinds = ", ".join(one_line(kind)[:40] for kind in dict.fromkeys(unknown))
        left_out.append(
            f"{counted(len(unknown), 'event')} of kinds unknown to this version: {kinds}"
        )
    errors = list(_errors(rounds))
    best = _evaluation_of_best(rounds, summary)
    page = RunPage(
        id=identifier,
        path=str(transcript.path),
        header=header,
        summary=summary,
        basis=basis,
        where=where(basis, header.device),
        over=summary.ended is not None and summary.ended.reason not in BROKEN_OFF,
        rounds=rounds,
        texts=texts_of(transcript.records),
        drawings=dict.fromkeys(DRAWINGS),
        errors=errors,
        winner=_winner(transcript, summary),
        launches=best.evidence.plans if best and best.evidence else (),
        environment=list(_environment(transcript, best)),
        left_out=left_out,
        baseline=_timed(next((t.payload for t in turns if t.kind == "evaluation"), None)),
        best=_timed(best),
    )
    for drawing in _drawings(page, transcript):
        page.drawings[drawing.name.removeprefix(f"{identifier}-")] = drawing
    return page


def _drawings(page: RunPage, transcript: Transcript) -> Iterator[Drawing]:
    """All plots that there is something for."""
    name, summary = page.id, page.summary
    errors = [(e.candidate, e.verdict, e.correct.worst if e.correct else None) for e in page.errors]
    found = [
        round_plots.speed_by_round(name, summary, page.basis),
        round_plots.predictions(name, summary, page.basis),
        case_plots.errors(name, errors),
        part_plots.seconds_by_step(name, summary.spent),
        part_plots.tokens_by_role(name, summary.spent),
    ]
    if (timing := page.timing) is not None:
        shown = timing.model_copy(update={"cases": tuple(filter(_drawable, timing.cases))})
        if hidden := len(timing.cases) - len(shown.cases):
            page.left_out.append(
                f"{counted(hidden, 'case')} in the plots, because their times are impossible"
            )
        if shown.cases:
            found += _case_drawings(page, transcript, shown)
    yield from (drawing for drawing in found if drawing is not None)


def _case_drawings(page: RunPage, transcript: Transcript, shown: Timing) -> list[Drawing | None]:
    named = page.summary.best is not None
    roofline = None
    try:
        work = _work(transcript, shown.cases)
        gpu = spec(page.header.device.spec)
        roofline = case_plots.roofline(page.id, shown, work, gpu, named)
    except (AstraError, ArithmeticError, KeyError):
        page.left_out.append(
            "the roofline, because the recorded task does not state flops and bytes"
        )
    return [
        case_plots.times_by_case(page.id, shown, named),
        _parts(page, shown, named),
        roofline,
    ]


def _parts(page: RunPage, shown: Timing, named: bool) -> Drawing | None:
    """Draw the parts of each case's time: by profiles where they divide it; else by what was
    measured."""
    before = part_plots.profiles_of(page.baseline)
    after = part_plots.profiles_of(page.best)
    found = part_plots.profiled_parts(page.id, shown.cases, before, after, page.basis)
    return found or part_plots.measured_parts(page.id, shown, named)


def _drawable(case: AnyTime) -> bool:
    """Anybody may have written the file."""
    times = (case.baseline_us, case.median_us, case.limit_us)
    return all(map(math.isfinite, times)) and min(times[:2]) > 0


def _work(transcript: Transcript, cases: Sequence[AnyTime]) -> list[tuple[float, float]]:
    """Flops and least bytes of each case, by the recorded task. Nothing of the task is run."""
    with task_of(transcript, None) as task:
        return [
            (float(task.flops_of(one.case)), float(task.least_bytes(one.case))) for one in cases
        ]


def _errors(rounds: Sequence[Round]) -> Iterator[ErrorRow]:
    for candidate in (one for each in rounds for one in each.candidates):
        if candidate.evaluation is None:
            continue
        outcome = candidate.evaluation.outcome
        right = outcome.correct if isinstance(outcome, Timed) else outcome
        correct = right if isinstance(right, Correct) else None
        if correct is not None or outcome.kind == "wrong":
            yield ErrorRow(candidate.name, candidate.verdict, correct, candidate.evaluation)


def _evaluation_of_best(rounds: Sequence[Round], summary: RunSummary) -> Evaluation | None:
    """Returns the winner's evaluation: its confirmation where there is one; None without a
    winner."""
    name = summary.best.candidate if summary.best else ""
    same = [c for each in rounds for c in each.candidates if c.name == name]
    found = [e for c in same for e in (c.evaluation, c.confirmation) if e is not None]
    return found[-1] if found else None


def _timed(payload: object) -> Timed | None:
    outcome = payload.outcome if isinstance(payload, Evaluation) else None
    return outcome if isinstance(outcome, Timed) else None


def _winner(transcript: Transcript, summary: RunSummary) -> list[Markup]:
    if summary.best is None:
        return []
    name = summary.best.candidate
    found = (text for sha, text in texts(transcript.records).items() if sha.startswith(name))
    return highlighted(next(found, "").rstrip("\n"))


def _environment(transcript: Transcript, best: Evaluation | None) -> Iterator[tuple[str, str]]:
    header = transcript.header
    yield "transcript", str(transcript.path)
    yield "started (UTC)", header.started
    yield "device", f"{header.device.name} ({header.device.kind}, {header.device.arch})"
    for name, version in header.versions.items():
        yield name, version
    if header.git is not None:
        yield "commit", header.git.commit + (", with changes" if header.git.dirty else "")
    yield "task", f"{header.task.name}, {header.task.id}"
    options = transcript.options.model_dump(mode="json").items()
    yield "options", ", ".join(f"{k} {v}" for k, v in options if v not in (None, "", False))
    resumed = [r.event.started for r in transcript.records if isinstance(r.event, Resumed)]
    if resumed:
        yield "resumed (UTC)", ", ".join(resumed)
    if best is not None and best.evidence is not None:
        yield "judge, sha256", best.evidence.judge_sha256
        yield "cubin of the winner, sha256", best.evidence.cubin_sha256
        yield "cubin of the baseline, sha256", best.evidence.baseline_cubin_sha256 or "not recorded"
        for name, value in best.evidence.gpu.items():
            yield f"GPU: {name}", value
    if transcript.ended is not None and transcript.ended.seed:
        yield "seed", transcript.ended.seed
