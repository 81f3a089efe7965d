"""Changes of a recorded run that a check has to notice, and a measured run with its samples."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.run.protocol import Block, RawTimes
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.gpu_samples import contract_limit_us, time_of
from astra_chat.tools.types import Device, MeasuredTime
from tests.time_samples import READING, raw_times

EXAMPLES = Path(__file__).resolve().parents[3] / "transcripts" / "examples"
VIRTUAL = EXAMPLES / "virtual" / "silu_and_mul.jsonl.xz"
H200 = EXAMPLES / "silu_and_mul-h200.jsonl.xz"
Json = dict[str, Any]
Edit = Callable[[list[Json]], None]


def forged(edit: Edit, folder: Path, source: Path = VIRTUAL) -> Path:
    """A copy of a run whose events were changed."""
    lines = [json.loads(line) for line in read_recorded(source).splitlines()]
    edit([line["event"] for line in lines])
    path = folder / "transcript.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def judged(events: list[Json], number: int = -1) -> Json:
    """An evaluation, by default the winner's confirmation."""
    found: Json = [one for one in events if one["kind"] == "judged"][number]["evaluation"]
    return found


def last(events: list[Json], kind: str) -> Json:
    return [one for one in events if one["kind"] == kind][-1]


def samples(candidate_us: float = 2.0) -> RawTimes:
    """Raw samples of a candidate beside a baseline of 3 us."""
    times = [candidate_us + 0.001 * i for i in range(9)]
    blocks = [
        Block(
            candidate_first=bool(i % 2),
            baseline=(2.9, 3.1),
            candidate=(us, us),
            control=(3.0, 3.0 + 0.001 * i),
            spent_s=0.1 * i,
            clock=READING,
        )
        for i, us in enumerate(times)
    ]
    return raw_times(blocks, baseline_event_us=(7.0, 7.1), candidate_event_us=(6.0, 6.2))


def with_samples(events: list[Json]) -> None:
    """Gives the first evaluation's first case the figures of `samples`, as the judge makes them."""
    timed = judged(events, 0)["outcome"]
    old = MeasuredTime.model_validate(timed["cases"][0])
    device = Device.model_validate(judged(events, 0)["device"])
    floor = contract_limit_us(find_task("silu_and_mul"), old.case, device)
    new = time_of(samples(max(2.0, 1.2 * floor)), old.case, old.weight, floor)
    assert isinstance(new, MeasuredTime) and math.isfinite(new.ratio)
    timed["cases"][0] = new.model_dump(mode="json")
