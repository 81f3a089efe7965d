"""The winners of recorded runs, as a package takes them: one for each task."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from astra_chat.display.notes import note
from astra_chat.package.engine_file import EngineFile, read_engine_file, require_arguments
from astra_chat.tools.evaluation import EVALUATION_SCHEMA, Evaluation
from astra_chat.tools.recordings.reading import expanded, read_recorded
from astra_chat.tools.task.folder import (
    BUILTIN,
    ENGINE_FILE,
    Task,
    find_task,
    load_task,
    task_names,
)
from astra_chat.tools.types import Timed, candidate_id
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.recorded_task import task_of
from astra_chat.transcript.summary import RunSummary, Speed, fastest, summarize
from astra_chat.transcript.turns import evaluations_of, texts
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Winner:
    """A run's winner, with what GPUs say of it."""

    task: Task
    """The recorded one: by its contract the kernel was judged."""
    source: str
    summary: RunSummary
    best: Speed
    measured: Mapping[str, Timed]
    """What each GPU says, by its name."""
    confirmed: bool
    """Accepted on fresh seeds, in the run or by an evaluation after it."""
    engine_task: Task | None = None
    """The task whose engine.toml counts; None: the shipped one of its name."""

    def engine_file(self) -> EngineFile | None:
        """Where engines call the operator; None, with a note, where no engine.toml says it. Raises
        BadInput."""
        name, task = self.task.name, self._with_engine_file()
        if task is None:
            note(f"{name} is left out: --task DIR names its folder, with an {ENGINE_FILE}")
            return None
        if file := read_engine_file(task):
            require_arguments(task.folder / ENGINE_FILE, file, self.task)
        else:
            note(f"{name} is left out: the task has no {ENGINE_FILE}")
        return file

    def _with_engine_file(self) -> Task | None:
        name = self.task.name
        return self.engine_task or (load_task(BUILTIN / name) if name in task_names() else None)

    @property
    def over_today(self) -> str:
        """What it gains over what engines launch today, where its engine.toml says it. Raises
        BadInput."""
        task = self._with_engine_file()
        file = read_engine_file(task) if task else None
        if file is None or file.today is None or file.today.candidate != self.best.candidate:
            return "not compared with what engines launch today"
        return file.today.words

    @property
    def ratio(self) -> float:
        """Speed over the baseline: the best that a GPU measured, else the estimate."""
        return max((one.ratio for one in self.measured.values()), default=self.best.ratio)

    @property
    def words(self) -> str:
        gpus = ", ".join(f"{one.ratio:.3f}x on {gpu}" for gpu, one in sorted(self.measured.items()))
        confirmed = "confirmed" if self.confirmed else "not confirmed"
        figure = gpus or f"estimated {self.best.ratio:.3f}x"
        over = f"over the {self.summary.options.tier} baseline"
        return f"{self.best.candidate} of run {self.summary.run}, {figure} {over}, {confirmed}"


def winners(paths: Sequence[Path], stack: ExitStack) -> list[Winner]:
    """The fastest winner of each task. A path is a transcript, a run's folder, a member of an
    archive, or an evaluation as `astra-chat time --json` prints it, which says what a GPU measured
    of a run's winner. Raises BadInput where there is nothing to take; the recorded tasks' folders
    stay until `stack` is left."""
    runs: list[Transcript] = []
    evaluations: list[Evaluation] = []
    others, slower = list[Path](), list[Path]()
    for path in expanded(paths):
        if not path.name.endswith((".json", ".json.gz")):
            runs.append(read(path))
        elif evaluation := read_evaluation(path):
            evaluations.append(evaluation)
        else:
            others.append(path)
    _note_left_out(
        others, "not an evaluation that --json saved", "not evaluations that --json saved"
    )
    found: dict[str, list[Winner]] = {}
    for transcript in runs:
        if one := _winner(transcript, evaluations, stack):
            found.setdefault(one.task.name, []).append(one)
        else:
            slower.append(transcript.path)
    _note_left_out(slower, "no kernel was faster in this run", "no kernel was faster in these runs")
    if not found:
        raise BadInput("none of these runs has a winner: there is nothing to package")
    return [_fastest(found[name]) for name in sorted(found)]


def with_engine_files(found: Sequence[Winner], folders: Sequence[Path]) -> list[Winner]:
    """The winners with the engine.toml of these tasks' folders. Raises BadInput for a folder that
    has none, or is of none of these tasks."""
    tasks: dict[str, Task] = {}
    for folder in folders:
        task = find_task(str(folder))
        if not (task.folder / ENGINE_FILE).is_file():
            raise BadInput(f"--task {folder}: it has no {ENGINE_FILE}")
        names = [winner.task.name for winner in found]
        if task.name not in names:
            known = ", ".join(names)
            raise BadInput(f"--task {folder} is {task.name}; these runs have winners for {known}")
        tasks[task.name] = task
    return [replace(one, engine_task=tasks.get(one.task.name)) for one in found]


def _note_left_out(paths: Sequence[Path], one: str, several: str) -> None:
    """A line for all of them, with the reason."""
    if len(paths) == 1:
        note(f"left out: {paths[0]}: {one}")
    elif paths:
        note(f"left out: {len(paths)} files, such as {paths[0]}: {several}")


def _winner(
    transcript: Transcript, evaluations: Sequence[Evaluation], stack: ExitStack
) -> Winner | None:
    """A run's winner. Where the run, judged by estimates, has none, its fastest candidate is one if
    a GPU accepted it afterwards."""
    summary = summarize(transcript.records)
    speed = fastest(summary)
    judged = [*evaluations_of(transcript.records), *evaluations]
    own = [] if speed is None else _own(speed.candidate, judged)
    measured = _measured(own)
    accepted = any(timed.verdict == "accepted" for timed in measured.values())
    if speed is None or not (summary.best or accepted):
        return None
    sure = any(
        e.confirms and isinstance(e.outcome, Timed) and e.outcome.verdict == "accepted" for e in own
    )
    task = stack.enter_context(task_of(transcript, None))
    source = _source(transcript, speed.candidate)
    return Winner(task, source, summary, speed, measured, sure)


def read_evaluation(path: Path) -> Evaluation | None:
    """The evaluation in a file of `--json`; None for another document. Raises BadInput for what is
    no JSON."""
    try:
        found = json.loads(read_recorded(path))
    except (ValueError, RecursionError):
        raise BadInput(f"{path} is not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != EVALUATION_SCHEMA:
        return None
    try:
        return Evaluation.model_validate(found.get("evaluation"))
    except ValidationError:
        raise BadInput(f"{path} is not an evaluation that this version can read") from None


def without(winner: Winner, gpus: Sequence[str]) -> Winner:
    """The winner with the measurements of these GPUs alone."""
    return replace(winner, measured={g: t for g, t in winner.measured.items() if g in gpus})


def _own(candidate: str, evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    return [one for one in evaluations if one.candidate == candidate]


def _measured(evaluations: Sequence[Evaluation]) -> dict[str, Timed]:
    """The last measurement on each GPU; one with fresh seeds goes before others."""
    found: dict[str, Evaluation] = {}
    for one in evaluations:
        if one.device.kind == "cuda" and isinstance(one.outcome, Timed):
            known = found.get(one.device.name)
            if known is None or one.confirms or not known.confirms:
                found[one.device.name] = one
    return {gpu: e.outcome for gpu, e in found.items() if isinstance(e.outcome, Timed)}


def _source(transcript: Transcript, candidate: str) -> str:
    for text in texts(transcript.records).values():
        if candidate_id(text) == candidate:
            return text
    raise BadInput(f"{transcript.path}: the source of {candidate} is missing")


def _fastest(some: Sequence[Winner]) -> Winner:
    """A winner of SGLang's baseline goes before one of another start, whose ratio says something
    else; a measurement before an estimate; then the ratio counts."""
    best, *others = sorted(
        some, key=lambda w: (w.summary.options.tier != "sglang", not w.measured, -w.ratio)
    )
    left = sorted({w.best.candidate for w in others} - {best.best.candidate})
    if left:
        note(f"{best.task.name}: the fastest is packaged; left out: {', '.join(left)}")
    return best
