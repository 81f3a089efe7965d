"""Check that recorded kernels compile to the same code as written by their authors and as judged.

`python -m lab.same_machine_code [PATTERN]` compiles every kernel of the
transcripts, the shipped tasks' own and, with `--attacks`, the honest ones of tests/attacks both
ways (tools/build/proven_object.py). It prints a line for each that differs or does not compile,
then the counts. Results are cached: a second call continues where the first was stopped.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from astra_chat.models.script import load_script, scripted_names
from astra_chat.tools.build.proven_object import both_objects
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import texts
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.toolkit import find_toolkit
from lab.attack_kernels import kernels

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel of a task."""

    task: Task
    name: str
    source: str


def recorded(attacks: bool = False) -> list[RecordedKernel]:
    """Every kernel that is recorded in this checkout, each text once, the shipped ones first."""
    tasks = {name: find_task(name) for name in task_names()}
    found = [*_shipped(tasks), *_of_runs(tasks), *(_honest() if attacks else ())]
    return list({one.source: one for one in reversed(found)}.values())[::-1]


def _shipped(tasks: dict[str, Task]) -> Iterator[RecordedKernel]:
    for name, task in tasks.items():
        for path in sorted(task.folder.rglob("*.cu")):
            yield RecordedKernel(task, f"{name}/{path.name}", path.read_text())
        for file, text in load_script(task).sources.items() if name in scripted_names() else ():
            yield RecordedKernel(task, f"{name}/{file}", text)


def _of_runs(tasks: dict[str, Task]) -> Iterator[RecordedKernel]:
    folders = (ROOT / "transcripts", ROOT / "sglang_kernels")
    files = sorted(p for folder in folders for p in folder.rglob("*.jsonl*"))
    members = expanded([ROOT / "transcripts/recorded.tar.xz"])
    for path in (*files, *(p for p in members if p.suffix == ".jsonl")):
        for sha, text in texts(read(path).records).items():
            for name, task in tasks.items():
                if "__global__" in text and re.search(rf'"C"[^;{{]*\b{task.entry}\s*\(', text):
                    yield RecordedKernel(task, f"{name}/{sha[:12]} of {path.name}", text)


def _honest() -> Iterator[RecordedKernel]:
    folder = ROOT / "tests" / "attacks"
    tasks = [load_task(path) for path in sorted((folder / "tasks").iterdir()) if path.is_dir()]
    for file, text in kernels("honest").items():
        for task in tasks:
            if file.startswith(f"{task.name}_"):
                yield RecordedKernel(task, file, text)


def compared(one: RecordedKernel) -> str:
    """ "same", "different", or why it does not compile."""
    try:
        objects = both_objects(one.task, one.source, find_toolkit(), pick_device("virtual").arch)
    except AstraError as error:
        return f"does not compile: {error}"
    return "same" if objects.equal else "different"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "pattern", nargs="?", default="", help="regular expression for the names, task/candidate"
    )
    parser.add_argument(
        "--attacks", action="store_true", help="include the honest kernels of the attacks"
    )
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="stop after this many minutes; 0: never"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="kernels in parallel")
    options = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    kernels = [one for one in recorded(options.attacks) if re.search(options.pattern, one.name)]

    def said_of(one: RecordedKernel) -> str:
        late = options.minutes and time.monotonic() - began > 60 * options.minutes
        return "" if late else compared(one)

    with ThreadPoolExecutor(options.workers) as pool:
        for one, said in zip(kernels, pool.map(said_of, kernels), strict=True):
            counts.update(filter(None, [said.partition(":")[0]]))
            if said not in ("same", ""):
                sys.stdout.write(f"{one.name}: {said}\n")
                sys.stdout.flush()
    words = ", ".join(f"{count} {said}" for said, count in counts.most_common())
    sys.stdout.write(f"{sum(counts.values())} of {len(kernels)} kernels compared: {words}\n")
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
