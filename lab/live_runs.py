"""Live runs as documents read them: transcripts, with what GPUs say of their winners.

A file is a transcript, or a document of `astra-chat time TASK KERNEL --json` (.json or .json.gz): a
run's winner, judged on a GPU after the run, known by its candidate. One counts for each kind of
GPU, a confirmation before others (`judge_winners` makes them). Where an estimate tells none from
the baseline, the fastest candidate stands for it. A run that was judged on a GPU brings its own
measurement.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.recordings.reading import expanded, in_archive
from astra_chat.tools.types import Timed
from astra_chat.transcript.events import Record
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall
from astra_chat.transcript.summary import RunSummary, summarize
from astra_chat.transcript.turns import evaluations_of
from astra_vgpu.ground.errors import BadInput
from lab.results import read_evaluation
from lab.winners import fastest, settled

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class LiveRun:
    """A run with what it spent on models' answers."""

    path: Path
    summary: RunSummary
    answers: int
    refused: int
    """Answers refused by the mailbox at once, and replies that the chat sent back."""
    measured: Mapping[str, Evaluation]
    """Evaluations of the winner on GPUs, by the GPU's name: judged there in the run or after it."""

    @property
    def name(self) -> str:
        return self.path.name.partition(".")[0]

    @property
    def place(self) -> str:
        """Where the run lies, as documents tell it: in an archive without its name."""
        found = in_archive(self.path)
        return f"`{(found[1] if found else self.written_path).removesuffix('.jsonl')}`"

    @property
    def written_path(self) -> str:
        """The path as documents name it: no folder of this machine. An absolute path is relative to
        the checkout; of one outside the checkout only the file's name is left."""
        if not self.path.is_absolute():
            return self.path.as_posix()
        inside = self.path.is_relative_to(ROOT)
        return self.path.relative_to(ROOT).as_posix() if inside else self.path.name

    @property
    def arm(self) -> tuple[str, str]:
        options = self.summary.options
        return options.tier, "single" if options.strategy.kind == "single" else "team"

    @property
    def ratio(self) -> float:
        """Speed of the winner over the start; 1 where nothing was faster."""
        return self.summary.best.ratio if self.summary.best else 1.0

    def ratio_on(self, gpu: str) -> float | None:
        found = self.timed_on(gpu)
        return found.ratio if found else None

    def least_on(self, gpu: str) -> float | None:
        """The lowest ratio of a case on a GPU; None: not timed there."""
        found = self.timed_on(gpu)
        return min(case.ratio for case in found.cases) if found else None

    def timed_on(self, gpu: str) -> Timed | None:
        outcome = self.measured[gpu].outcome if gpu in self.measured else None
        return outcome if isinstance(outcome, Timed) else None


def load(paths: Iterable[Path]) -> list[LiveRun]:
    """Read runs and what GPUs say of their winners. Raises BadInput for a file that is neither, or
    a measurement of no run's winner."""
    runs = list[tuple[Path, RunSummary, list[ModelCall]]]()
    measured: dict[str, dict[str, Evaluation]] = defaultdict(dict)
    for path in expanded(paths):
        if path.name.endswith((".json", ".json.gz")):
            _keep(measured, read_evaluation(path))
            continue
        records = read(path).records
        calls = [r.event for r in records if isinstance(r.event, ModelCall)]
        if not calls:
            raise BadInput(f"{path}: no live model answered in this run")
        summary = summarize(records)
        if (speed := fastest(summary)) and summary.device.kind == "cuda":
            _keep(measured, _last_evaluation(records, speed.candidate))
        runs.append((path, summary, calls))
    winners = {speed.candidate for _, summary, _ in runs if (speed := fastest(summary))}
    if lost := sorted(set(measured) - winners):
        raise BadInput(f"{lost[0]} is not a winner of these runs")
    return [_run(path, summary, calls, measured) for path, summary, calls in runs]


def gpus_of(runs: Iterable[LiveRun]) -> list[str]:
    """Returns the names of the GPUs that judged a winner, the newest kind first."""
    return sorted({gpu for run in runs for gpu in run.measured}, reverse=True)


def short(gpu: str) -> str:
    """ "H100" of "NVIDIA H100 80GB HBM3"."""
    return gpu.removeprefix("NVIDIA ").partition(" ")[0]


def fastest_run(runs: Iterable[LiveRun], task: str, gpu: str) -> LiveRun | None:
    """Returns the fastest of the runs of a task from `sglang`, by what this GPU says; None where it
    timed none."""
    some = [r for r in runs if (r.summary.task, r.arm[0]) == (task, "sglang") and r.timed_on(gpu)]
    return max(some, key=lambda run: run.ratio_on(gpu) or 0.0, default=None)


def _keep(measured: dict[str, dict[str, Evaluation]], found: Evaluation) -> None:
    """Keep an evaluation as what its GPU says of its candidate, unless a confirmation has said
    it."""
    known = measured[found.candidate].get(found.device.name)
    if not (known and settled(known)) or settled(found):
        measured[found.candidate][found.device.name] = found


def _last_evaluation(records: Sequence[Record], candidate: str) -> Evaluation:
    """Returns the evaluation of a candidate that counts: the confirmation, where there is one."""
    return [one for one in evaluations_of(records) if one.candidate == candidate][-1]


def _run(
    path: Path,
    summary: RunSummary,
    calls: Sequence[ModelCall],
    measured: Mapping[str, Mapping[str, Evaluation]],
) -> LiveRun:
    unusable = sum(role.unusable for role in summary.spent.roles)
    found = fastest(summary)
    winner = found.candidate if found else ""
    refused = sum(call.refused for call in calls) + unusable
    return LiveRun(path, summary, len(calls), refused, measured.get(winner, {}))
