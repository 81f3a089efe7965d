"""Estimate every scripted kernel: `python -m lab.estimates > FILE`.

Timed on the cases that a task's demo and bench lists share, so that recorded runs on a real GPU
contain the same cases with the same dims and dtype. results.py compares the two rankings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.check.hidden_cases import Weighted
from astra_chat.tools.entropy import NO_SEED
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.tuning.ranking import estimated_times
from astra_chat.tools.types import Device, EstimatedTime, Value, candidate_id
from lab.commands import one_line_errors, read_document

SCHEMA = "astra-chat/estimates/1"


class Estimate(Value):
    """A correct kernel beside the task's baseline."""

    task: str
    file: str
    candidate: str
    cases: tuple[EstimatedTime, ...]


class Estimates(Value):
    device: Device
    estimates: tuple[Estimate, ...]


def shared_cases(task: Task) -> Weighted:
    """Returns the demo cases that are bench cases too, with their bench weights."""
    demo = {case.label for case, _ in task.demo}
    return tuple((case, weight) for case, weight in task.bench if case.label in demo)


def estimates(task: Task, device: Device) -> Iterator[Estimate]:
    """Yields the estimates of the scripted kernels that build and are right on the shared cases."""
    script = load_script(task)
    sources = {kernel.name: script.sources[kernel.name] for kernel in script.kernels()}
    each = estimated_times(
        task, device, task.baseline, list(sources.values()), shared_cases(task), NO_SEED, Stop()
    )
    for (file, source), timed in zip(sources.items(), each, strict=True):
        if isinstance(timed, list):
            cases = tuple(t.time for t in timed if isinstance(t.time, EstimatedTime))
            yield Estimate(task=task.name, file=file, candidate=candidate_id(source), cases=cases)


def read(path: Path) -> Estimates:
    """What `main` printed. Raises BadInput."""
    return read_document(path, SCHEMA, Estimates, "estimates")


@one_line_errors()
def main() -> None:
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task

    parser = argparse.ArgumentParser(prog="python -m lab.estimates", description=__doc__)
    parser.add_argument("task", nargs="*", help="tasks; default: all that have a scripted run")
    parser.add_argument("--gpu", default="h200", help="GPU model to estimate for")
    asked = parser.parse_args()
    device, found = pick_device("virtual", asked.gpu), []
    for name in asked.task or scripted_names():
        for one in estimates(find_task(name), device):
            found.append(one)
            print(f"{name}: {one.file}", file=sys.stderr)
    dumped = Estimates(device=device, estimates=tuple(found)).model_dump(mode="json")
    print(json.dumps({"schema": SCHEMA, **dumped}, separators=(",", ":")))


if __name__ == "__main__":
    main()
