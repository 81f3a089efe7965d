"""Where a run's time went, from the clocks in its records: each record ends what it tells of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import fsum
from typing import Literal, TypeAlias

from astra_chat.agents.turns import MODEL_ROLES
from astra_chat.tools.types import Seconds, Value
from astra_chat.transcript.events import (
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Event,
    Judged,
    Proposed,
    Record,
    RejectedReply,
)
from astra_chat.transcript.ledger import gpu_seconds, gpu_wait_s
from astra_chat.transcript.spending import ModelCall

Part: TypeAlias = Literal["models_s", "build_s", "judge_s", "human_s", "other_s"]


class TimeUse(Value):
    """Seconds of a run's sessions; the time between sessions is in none."""

    models_s: Seconds = 0.0
    """Seconds of waiting for models' replies."""
    build_s: Seconds = 0.0
    """Seconds of guard and build of candidates."""
    judge_s: Seconds = 0.0
    """Seconds of evaluations, tunings, and scores of cases."""
    human_s: Seconds = 0.0
    """Seconds of waiting for a human's decision."""
    other_s: Seconds = 0.0
    """Seconds of all else."""
    device_s: Seconds = 0.0
    """Seconds in which evaluations held a real GPU's lease, part of judge_s; of old ones those of
    the steps on it, with the wait."""
    lease_wait_s: Seconds = 0.0
    """Seconds in which evaluations waited for a real GPU's lease, part of judge_s."""
    outside_steps_s: Seconds = 0.0
    """Seconds outside the steps of evaluations, part of judge_s: on the way to a worker, or waiting
    for one."""

    @property
    def whole_s(self) -> float:
        return self.models_s + self.build_s + self.judge_s + self.human_s + self.other_s

    @property
    def device_share(self) -> float:
        """Part of the time in which a judgement held a real GPU's lease."""
        return min(1.0, self.device_s / self.whole_s) if self.whole_s else 0.0


def time_use(records: Sequence[Record]) -> TimeUse:
    """Where the time up to the last of these records went."""
    seconds: defaultdict[Part, float] = defaultdict(float)
    for before, record in pairwise(records):
        seconds[_part(record.event)] += max(0.0, record.t - before.t)
    outside_s = fsum(
        max(0.0, record.t - before.t - fsum(step.seconds for step in record.event.evaluation.steps))
        for before, record in pairwise(records)
        if isinstance(record.event, Judged)
    )
    judged = [r.event.evaluation for r in records if isinstance(r.event, Judged)]
    parts = {name: round(value, 3) for name, value in seconds.items()}
    of_gpus = {
        "device_s": round(fsum(map(gpu_seconds, judged)), 3),
        "outside_steps_s": round(outside_s, 3),
        "lease_wait_s": round(fsum(map(gpu_wait_s, judged)), 3),
    }
    return TimeUse.model_validate({**parts, **of_gpus})


def sum_of(uses: Iterable[TimeUse]) -> TimeUse:
    """Returns the sum of several runs' seconds, field by field."""
    dumped = [use.model_dump() for use in uses]
    names = TimeUse.model_fields
    return TimeUse.model_validate({name: sum(one[name] for one in dumped) for name in names})


def _part(event: Event) -> Part:
    match event:
        case ModelCall() | Proposed() | RejectedReply() | Contradiction():
            return "models_s"
        case Chosen(decision=decision):
            return "models_s" if decision.by == "model" else "other_s"
        case ChatMessage(speaker=speaker):
            return _part_of_speaker(speaker)
        case BuildDone():
            return "build_s"
        case Judged():
            return "judge_s"
        case _:
            return "other_s"


def _part_of_speaker(speaker: str) -> Part:
    if speaker in (*MODEL_ROLES, "single"):
        return "models_s"
    known: dict[str, Part] = {"executor": "judge_s", "human": "human_s"}
    return known.get(speaker, "other_s")
