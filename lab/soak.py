"""How often does the judge reject an honest kernel? `make soak`, or
`python -m lab.soak --judgements 1000`.

Checks correct kernels repeatedly, with fresh entropy for each judge: the honest kernels of
tests/attacks, the baselines of the shipped tasks and the scripted candidates that are correct;
with `--winners`, also the winners of recorded live runs. The paper's baselines are left out: that
of fused_add_rmsnorm rounds twice, which the judge rejects.
Every judgement is appended to a file immediately, so that an interrupted soak continues where it
stopped; kernels with the fewest judgements come first. At the end, it prints the rejections, each
with the command that reproduces it, and the rate with the upper end of its one-sided 95 % interval
(Clopper and Pearson, Biometrika 26, 1934).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from astra_chat.cli.reproduce import reproduce_command
from astra_chat.models.script import ScriptedKernel, load_script, scripted_names
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task, load_task, task_names
from astra_chat.tools.task.tiers import TIER_FILES, baseline_source
from astra_chat.tools.types import Correct, Timed, Unsupported
from lab.attack_kernels import kernels
from lab.commands import one_line_errors
from lab.judging_processes import append, judging_processes
from lab.live_runs import load
from lab.winners import fastest, source_of

ROOT = Path(__file__).resolve().parents[1]
ATTACKS = ROOT / "tests" / "attacks"
A_JUDGE = 8
"""Judgements by one judge, which has drawn the seeds of its task's cases once for all of them."""
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Honest:
    """A correct kernel of a task."""

    task: str
    name: str
    source: str

    def load(self) -> Task:
        shipped = self.task in task_names()
        return find_task(self.task) if shipped else load_task(ATTACKS / "tasks" / self.task)


@dataclass(frozen=True)
class Judgement:
    """One check of one kernel."""

    kernel: str
    task: str
    seed: str
    outcome: str
    """Kind of the outcome; correct and timed are accepted, unsupported is no judgement."""
    words: str = ""
    """What was wrong, and the command that reproduces it."""

    @property
    def counts(self) -> bool:
        return self.outcome != "unsupported"

    @property
    def rejected(self) -> bool:
        return self.outcome not in ("correct", "timed", "unsupported")


def honest_kernels() -> list[Honest]:
    """Returns the kernels of tests/attacks, whose names begin with their tasks', and those of
    shipped tasks."""
    own = (path.name for path in (ATTACKS / "tasks").iterdir() if path.is_dir())
    tasks = sorted([*own, *task_names()], key=len, reverse=True)
    found = [
        Honest(next(t for t in tasks if file.startswith(t)), file, text)
        for file, text in kernels("honest").items()
    ]
    for name in task_names():
        task = find_task(name)
        texts = {TIER_FILES["sglang"]: baseline_source(task, "sglang")}
        if name in scripted_names():
            script = load_script(task)
            texts |= {k.name: script.sources[k.name] for k in script.kernels() if correct(k)}
        found += [Honest(name, f"{name} {file}", text) for file, text in texts.items()]
    return found


def recorded_winners(paths: Sequence[Path]) -> list[Honest]:
    """Returns the fastest candidate of each run, once. Raises BadInput for a file that is none."""
    winners = dict[str, Honest]()
    for run in load(paths):
        if speed := fastest(run.summary):
            name = f"{run.summary.task} {speed.candidate}"
            source = source_of(run.path, speed.candidate)
            winners.setdefault(name, Honest(run.summary.task, name, source))
    return list(winners.values())


def correct(kernel: ScriptedKernel) -> bool:
    """Whether the script says so."""
    return kernel.expects.on("estimated") in ("accepted", "tie", "slower")


def upper_bound(rejected: int, judged: int, confidence: float = CONFIDENCE) -> float:
    """The largest rate at which so few rejections are not rarer than 1 - confidence."""
    if rejected >= judged:
        return 1.0
    low, high = rejected / judged, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if _at_most(rejected, judged, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(count: int, trials: int, rate: float) -> float:
    """Probability of at most `count` successes."""
    terms = (
        math.lgamma(trials + 1)
        - math.lgamma(k + 1)
        - math.lgamma(trials - k + 1)
        + k * math.log(rate)
        + (trials - k) * math.log1p(-rate)
        for k in range(count + 1)
    )
    return sum(map(math.exp, terms)) if 0 < rate < 1 else float(rate == 0)


def work(kernels: Sequence[Honest], before: Counter[str], wanted: int) -> Iterator[list[Honest]]:
    """What each judge checks: kernels of one task, those judged least first, until `wanted`
    judgements are made in all."""
    left, times = wanted - before.total(), Counter(before)
    while left > 0:
        turn = min(times[kernel.name] for kernel in kernels)
        due = [kernel for kernel in kernels if times[kernel.name] == turn]
        for task in dict.fromkeys(kernel.task for kernel in due):
            own = [kernel for kernel in due if kernel.task == task]
            for start in range(0, len(own), A_JUDGE):
                some = own[start : start + A_JUDGE][:left]
                left -= len(some)
                if some:
                    yield some
        times.update(kernel.name for kernel in due)


def judged(kernels: Sequence[Honest], folder: Path, device: str) -> Iterator[Judgement]:
    """Check kernels of one task with a judge of their own; those rejected lie in the folder."""
    task = kernels[0].load()
    entropy = Entropy(os.urandom(16).hex())  # whatever ASTRA_SEED says
    with Judge(task, pick_device(device), trust=True, entropy=entropy) as judge:
        for kernel in kernels:
            evaluation = judge.check(kernel.source)
            words = ""
            if not isinstance(evaluation.outcome, Correct | Timed | Unsupported):
                file = folder / f"{evaluation.candidate}.cu"
                file.write_text(kernel.source)
                again = reproduce_command(
                    evaluation,
                    str(task.folder),
                    str(file),
                    ("--device", device),
                    scalars=task.scalars,
                )
                words = f"{describe(evaluation.outcome)}\n{again}"
            kind = evaluation.outcome.kind
            yield Judgement(kernel.name, kernel.task, evaluation.seed, kind, words)


def read(path: Path) -> list[Judgement]:
    """The judgements made so far; a last line that was cut off is left out."""
    made = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            made.append(Judgement(**json.loads(line)))
        except ValueError:
            continue
    return made


def soak(
    kernels: Sequence[Honest],
    path: Path,
    wanted: int,
    workers: int,
    device: str = "virtual",
    part: tuple[int, int] = (0, 1),
) -> list[Judgement]:
    """Judge until `wanted` judgements stand in the file; all of them. `part`: which of how many
    shares of the kernels, each with most kernels of its tasks."""
    made = read(path)
    kernels = sorted(kernels, key=lambda kernel: kernel.task)
    first, last = (len(kernels) * place // part[1] for place in (part[0], part[0] + 1))
    kernels = kernels[first:last]
    unsupported = {one.kernel for one in made if not one.counts}
    kernels = [kernel for kernel in kernels if kernel.name not in unsupported]
    before = Counter(one.kernel for one in made if one.counts)
    path.parent.mkdir(parents=True, exist_ok=True)
    if made and not path.read_text().endswith("\n"):
        append(path, "")  # after a line that was cut off
    with judging_processes(workers) as pool:
        turns = [pool.submit(_noted, some, path, device) for some in work(kernels, before, wanted)]
        for turn in as_completed(turns):
            made += turn.result()
            print(lines(made)[0], file=sys.stderr)
    return made


def _noted(kernels: Sequence[Honest], path: Path, device: str) -> list[Judgement]:
    made = []
    for one in judged(kernels, path.parent, device):
        made.append(one)
        append(path, json.dumps(asdict(one)))
    return made


def figures(made: Sequence[Judgement]) -> dict[str, object]:
    """What `--json` prints."""
    counted = [one for one in made if one.counts]
    rejected = [one for one in counted if one.rejected]
    return {
        "judgements": len(counted),
        "kernels": len({one.kernel for one in counted}),
        "unsupported": sorted({one.kernel for one in made if not one.counts}),
        "rejections": [asdict(one) for one in rejected],
        "rate": len(rejected) / max(1, len(counted)),
        "upper_95": upper_bound(len(rejected), len(counted)) if counted else 1.0,
    }


def lines(made: Sequence[Judgement]) -> list[str]:
    """Returns the rate of false rejections and its bound as text, then a line for each of them."""
    counted = [one for one in made if one.counts]
    rejected = [one for one in counted if one.rejected]
    bound = upper_bound(len(rejected), len(counted)) if counted else 1.0
    head = (
        f"{len(rejected)} of {len(counted)} judgements of"
        f" {len({one.kernel for one in counted})} honest kernels are false rejections:"
        f" {len(rejected) / max(1, len(counted)):.2%}, at most {bound:.2%} (95 %)"
    )
    return [head, *(f"{one.kernel}, seed {one.seed}: {one.words}" for one in rejected)]


def _part(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise argparse.ArgumentTypeError(f"{text} is not I/N, such as 0/4")
    return int(number), int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--judgements",
        type=int,
        default=1000,
        help="total number of judgements, including earlier ones",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=os.cpu_count(),
        help="number of judges that run in parallel, each in a process of its own",
    )
    parser.add_argument("--device", default="virtual", help="virtual, or a GPU: cuda:0")
    parser.add_argument("--file", type=Path, default=Path(".soak/judgements.jsonl"))
    parser.add_argument(
        "--part",
        type=_part,
        default=(0, 1),
        metavar="I/N",
        help="judge only share I of N of the kernels, counted from 0, to split the work between"
        " processes, each with its own --file",
    )
    parser.add_argument(
        "--winners",
        type=Path,
        nargs="+",
        default=(),
        help="transcripts of live runs, or glob patterns",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    asked = parser.parse_args()
    with one_line_errors():
        kernels = honest_kernels() + recorded_winners(asked.winners)
        made = soak(
            kernels, asked.file, asked.judgements, asked.workers or 1, asked.device, asked.part
        )
    print(json.dumps(figures(made), indent=2) if asked.json else "\n".join(lines(made)))
    sys.exit(any(one.rejected for one in made))


if __name__ == "__main__":
    main()
