"""Wrong kernels by class: each is a baseline with a few edits, and the judge must find it.

`python -m tests.attacks.wrong_kernels --device virtual -o FILE` runs every entry of classes/*.toml
through the judge as a new candidate is judged and, where that finds nothing, as a winner is
confirmed. It appends a line of JSON for each to FILE at once and leaves out what stands there
already for this kind of device. An entry that does not build proves nothing: it is `invalid`.
Without options it writes docs/research/wrong-kernels.md from wrong_kernels.jsonl.xz.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Literal

from pydantic import Field

from astra_chat.tools.descriptions import describe
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import BuildFailed, Correct, Device, Outcome, Timed, Value
from lab.judging_processes import append, judging_processes
from tests.attacks.edits import Edit, edited

HERE = Path(__file__).parent
CLASSES, RECORD = HERE / "classes", HERE / "wrong_kernels.jsonl.xz"
DOCUMENT = HERE.parents[1] / "docs" / "research" / "wrong-kernels.md"
Found = Literal["check", "confirmation", "missed", "invalid"]


class WrongKernel(Value):
    """A wrong kernel: an entry of classes/CLASS.toml."""

    id: str
    task: str
    what: str
    """What is wrong with it, in one line."""
    edits: tuple[Edit, ...] = Field(min_length=1)
    kind: str = ""
    """Its class, the name of its file."""

    @property
    def source(self) -> str:
        return edited(find_task(self.task), self.edits, self.id)


class Line(Value):
    """What a judge said of a wrong kernel: a line of wrong_kernels.jsonl.xz."""

    id: str
    device: str
    """Its kind: virtual, h100, h200."""
    found: Found
    words: str = Field(max_length=400)
    seed: str
    """The evaluation's, which repeats it (`astra-chat check --seed`)."""


@cache
def wrong_kernels() -> tuple[WrongKernel, ...]:
    """Returns all entries, by class and in their order."""
    return tuple(
        WrongKernel.model_validate(row | {"kind": path.stem})
        for path in sorted(CLASSES.glob("*.toml"))
        for row in tomllib.loads(path.read_text())["wrong"]
    )


def lines_of(file: Path) -> list[Line]:
    """Returns what was recorded in a file, nothing where there is none."""
    if not file.is_file():
        return []
    with lzma.open(file, "rt") if file.suffix == ".xz" else file.open() as lines:
        return [Line.model_validate_json(text) for text in lines]


def found(judge: Judge, one: WrongKernel, *, confirm: bool) -> tuple[Found, Evaluation]:
    """Returns at which evaluation the judge finds the fault, and that evaluation."""
    seen = judge.check(one.source)
    if isinstance(seen.outcome, BuildFailed):
        return "invalid", seen
    if not _passed(seen.outcome):
        return "check", seen
    if confirm:
        seen = judge.evaluate(one.source, fresh_seeds=True)
        if not _passed(seen.outcome):
            return "confirmation", seen
    return "missed", seen


def _passed(outcome: Outcome) -> bool:
    return isinstance(outcome, Correct | Timed)


def _kind(device: Device) -> str:
    return device.spec if device.kind == "cuda" else "virtual"


def _of_task(
    task: str, wanted: Sequence[WrongKernel], device: Device, confirm: bool, trust: bool
) -> Iterator[Line]:
    """Yields a line for each kernel; one judge serves all of a task."""
    with Judge(find_task(task), device, trust=trust) as judge:
        for one in wanted:
            where, seen = found(judge, one, confirm=confirm)
            yield Line(
                id=one.id,
                device=_kind(device),
                found=where,
                words=" ".join(describe(seen.outcome).split())[:400],
                seed=seen.seed,
            )


def table(lines: Sequence[Line]) -> list[str]:
    """Returns the rows of a table in Markdown: for each class, how many were found, and when."""
    kinds = {one.id: one.kind for one in wrong_kernels()}
    by_class: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        by_class[kinds[line.id]].append(line.found)
    rows = [
        "| class | kernels | at the first evaluation | at the confirmation | missed |",
        "|---|---|---|---|---|",
    ]
    by_class["**all**"] = [line.found for line in lines]
    for kind, seen in by_class.items():
        of = len(seen) - seen.count("invalid")
        counts = (str(seen.count(name)) for name in ("check", "confirmation", "missed"))
        rows.append(f"| {kind} | {of} | {' | '.join(counts)} |")
    return rows


def document() -> str:
    """Returns docs/research/wrong-kernels.md, from what is recorded."""
    lines = lines_of(RECORD)
    text = [
        "# Wrong kernels by class",
        "",
        "Each kernel is the baseline of a shipped task with a few edits (tests/attacks/classes/),"
        " written for a class of faults that a red team got past the judge in November 2026. The"
        " judge checks it as a new candidate and, if it finds nothing, confirms it as a winner."
        " `python -m tests.attacks.wrong_kernels --device DEVICE -o FILE` records the results in"
        " tests/attacks/wrong_kernels.jsonl.xz; the same command without options writes this"
        " page.",
        "",
        "An earlier judge (commit 54e807e8), tried on 101 of them on the virtual GPU, found 40 at"
        " the first evaluation. Lines without a seed were recorded from a run's output."
        " Faults that depend on three choices (coverage-03, -14) are found by the confirmation if"
        " the draws of the first evaluation miss them.",
    ]
    for device in sorted({line.device for line in lines}, key=lambda name: name != "virtual"):
        own = [line for line in lines if line.device == device]
        text += ["", f"## On `{device}`", "", *table(own)]
        late = [line for line in own if line.found != "check"]
        if late:
            text += ["", "Not found at the first evaluation:", ""]
        what = {one.id: f"{one.task}: {one.what}" for one in wrong_kernels()}
        text += [f"- {line.id} ({what[line.id]}): {line.found}. {line.words}" for line in late]
    return "\n".join([*text, ""])


def _record(options: argparse.Namespace) -> list[Line]:
    """Runs what the options name, tasks side by side, and appends a line for each at once."""
    device = pick_device(options.device)
    known = {line.id for line in lines_of(options.out) if line.device == _kind(device)}
    tasks: dict[str, list[WrongKernel]] = defaultdict(list)
    for one in wrong_kernels():
        named = not options.classes or one.kind in options.classes
        if named and one.id not in known and (not options.only or one.id in options.only):
            tasks[one.task].append(one)

    run = partial(_appended, device=device, options=options)
    with judging_processes(options.workers) as pool:
        return [line for some in pool.map(run, tasks, tasks.values()) for line in some]


def _appended(
    task: str, wanted: Sequence[WrongKernel], device: Device, options: argparse.Namespace
) -> list[Line]:
    lines = []
    for line in _of_task(task, wanted, device, not options.no_confirm, options.trust):
        append(options.out, line.model_dump_json())
        sys.stdout.write(f"{line.id} {line.found}: {line.words[:200]}\n")
        sys.stdout.flush()
        lines.append(line)
    return lines


def main() -> int:
    """Runs what the options name; exit code 1 where a kernel is missed or invalid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="virtual")
    parser.add_argument("--classes", nargs="*", help="files of classes/; all where none is named")
    parser.add_argument("--only", nargs="*", help="ids")
    parser.add_argument("--workers", type=int, default=1, help="judges at once, each of one task")
    parser.add_argument("--no-confirm", action="store_true", help="stop at the first evaluation")
    parser.add_argument("--trust", action="store_true", help="run where nothing isolates")
    parser.add_argument("-o", "--out", type=Path, help="where lines are appended")
    options = parser.parse_args()
    if options.out is None:
        DOCUMENT.write_text(document())
        return 0
    lines = _record(options)
    print("\n".join(table(lines)))
    return int(any(line.found in ("missed", "invalid") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
