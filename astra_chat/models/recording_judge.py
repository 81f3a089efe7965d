"""The judge with a recording: prompts show its results, so these have to be recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.agents.run_state import states
from astra_chat.agents.turns import Turns
from astra_chat.models.recording import Json, Recording, RequestPlace
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, Device, sha256_of
from astra_vgpu.ground.errors import BadInput

V = TypeVar("V", bound=BaseModel)
WHO = "executor"


class RecordedJudge:
    """Plays back recorded results; gets others from `real`, if there is one."""

    def __init__(self, recording: Recording, about: Json, real: JudgeProtocol | None) -> None:
        """`about`: everything besides source and cases that determines a result."""
        self._recording, self._about, self._real = recording, about, real

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        place = self._recording.place(WHO, self._build_of(sha256_of(source)))
        return self._result(BuildReport, place, lambda real: real.build(source, also))

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        asked = self._evaluation_of(sha256_of(source), extra_cases, fresh_seeds)
        return self._result(
            Evaluation,
            self._recording.place(WHO, asked),
            lambda real: real.evaluate(source, extra_cases, fresh_seeds=fresh_seeds),
        )

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        place = self._recording.place(WHO, self._score_of(cases, mutants, also))
        return self._result(CaseScores, place, lambda real: real.score(cases, mutants, also))

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        place = self._recording.place(WHO, self._tuning_of(sha256_of(source)))
        return self._result(Tuning, place, lambda real: real.tune(source, points, measured))

    def cancel(self) -> None:
        if self._real is not None:
            self._real.cancel()

    def remember(self, past: Turns, baseline: str) -> None:
        """Count the requests of the turns before this session, so that a second evaluation of the
        same source is the second one in the recording too."""
        for before, turn in zip(states(past), past, strict=False):
            payload = turn.payload
            if isinstance(payload, CaseScores):
                given = [score.case for score in payload.cases]
                also = before.sources.get(payload.also, "")
                self._recording.place(WHO, self._score_of(given, payload.asked, also))
            if not isinstance(payload, BuildReport | Evaluation | Tuning):
                continue
            sha = sha256_of(before.sources.get(payload.candidate, baseline))
            if isinstance(payload, BuildReport):
                self._recording.place(WHO, self._build_of(sha))
            elif isinstance(payload, Tuning):
                self._recording.place(WHO, self._tuning_of(sha))
            else:
                self._recording.place(WHO, self._evaluation_of(sha, before.cases, payload.confirms))

    def _build_of(self, sha: str) -> Json:
        return {"step": "build", "source": sha, **self._about}

    def _tuning_of(self, sha: str) -> Json:
        return {"step": "tune", "source": sha, **self._about}

    def _evaluation_of(self, sha: str, cases: Sequence[Case], confirms: bool) -> Json:
        given = [case.model_dump(mode="json") for case in cases]
        step = "confirm" if confirms else "evaluate"
        return {"step": step, "source": sha, "cases": given, **self._about}

    def _score_of(self, cases: Sequence[Case], mutants: int, also: str) -> Json:
        given = [case.model_dump(mode="json") for case in cases]
        beside = {"also": sha256_of(also)} if also else {}
        return {"step": "score", "cases": given, "mutants": mutants, **beside, **self._about}

    def _result(self, kind: type[V], place: RequestPlace, ask: Callable[[JudgeProtocol], V]) -> V:
        recorded = self._recording.recorded(place)
        if recorded is not None:
            try:
                return kind.model_validate(recorded)
            except ValidationError as error:
                problem = error.errors()[0]
                field = ".".join(str(part) for part in problem["loc"])
                raise BadInput(f"{self._recording.path}: {field}: {problem['msg']}") from None
        assert self._real is not None, "in replay mode, a missing answer raises an error"
        result = ask(self._real)
        self._recording.keep(place, result.model_dump(mode="json"))
        return result


@contextmanager
def recorded_judge(
    recording: Recording | None,
    real: Callable[[], AbstractContextManager[JudgeProtocol]],
    task: Task,
    device: Device,
    tier: str,
    cases: str | None,
    past: Turns = (),
) -> Iterator[JudgeProtocol]:
    """The judge of a run: the real one, with the recording around it if there is one.

    Playing back needs no real judge, so no GPU and no compiler. `past`: the turns of a run that is
    resumed.
    """
    if recording is None:
        with real() as alone:
            yield alone
        return
    about: Json = {
        "task": task.name,
        "device": device.name,
        "arch": device.arch,
        "baseline": tier,
        "timed": cases,
    }
    with nullcontext() if recording.mode == "replay" else real() as behind:
        judge = RecordedJudge(recording, about, behind)
        judge.remember(past, baseline_source(task, tier))
        yield judge
