"""How often is `astra-chat gate` wrong on a GPU?

    python -m lab.gate_rates TASK... -o RATES.jsonl [--device cuda:0 --device cuda:1]   on GPUs
    python -m lab.gate_rates --recorded RUN|EVALUATION...      from recorded measurements, anywhere

Measures each task's baseline against itself, on its smallest demo cases and without a check, and
again on fresh inputs after an alarm, as a gate does; if both raise an alarm, it is a false one. Two
measurements in a row in which every time of the new kernel is longer by `--loss` have a loss that
the rule should find. Several measurements share a process; each GPU has its own process and runs
nothing else. Each measurement is appended to the file immediately, so a command that was stopped
resumes. At the end, both rates are printed with the upper end of their one-sided 95 % interval.

Every recorded measurement on a GPU contains one of the baseline against itself: each block replays
a second recording of it. A pair consists of two of these, and the noise that widens their intervals
comes from a third measurement of the same cases on that kind of GPU.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from astra_chat.judging.evaluating import open_judge
from astra_chat.package.winners import read_evaluation
from astra_chat.tools.check.hidden_cases import reseeded
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.gpu_samples import interval, steady
from astra_chat.tools.timing.raw_samples import unpack
from astra_chat.tools.timing.regression import losses
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Device, MeasuredTime, Timed, Value
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import evaluations_of
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.soak import upper_bound

FEWEST = 3
"""Recorded measurements of the same cases that a pair needs."""


class GatePair(Value):
    """A measurement of a kernel beside itself, and what the rule says of it and of a second one."""

    task: str
    gpu: str
    ratios: tuple[float, ...]
    false_alarm: bool
    found: bool | None
    """Whether it finds the loss that was put into two measurements; None: it was put into one."""


def slowed(evaluation: Evaluation, loss: float) -> Evaluation:
    """The evaluation as if every call of the new kernel took so much longer."""
    timed = evaluation.outcome
    assert isinstance(timed, Timed)
    factor = 1 - loss
    cases = tuple(
        one.model_copy(
            update={
                "median_us": one.median_us / factor,
                "ratio": one.ratio * factor,
                "ratio_low": one.ratio_low * factor,
                "ratio_high": one.ratio_high * factor,
            }
        )
        for one in timed.cases
    )
    ratio, verdict, why = judge_times(cases)
    changed = {"cases": cases, "ratio": ratio, "verdict": verdict, "why": why}
    return evaluation.model_copy(update={"outcome": timed.model_copy(update=changed)})


def pair(task: str, first: Evaluation, second: Evaluation, loss: float) -> GatePair:
    """What the gate's rule says of two measurements, as they are and with a loss."""
    slow_first, slow_second = slowed(first, loss), slowed(second, loss)
    return GatePair(
        task=task,
        gpu=first.device.name,
        ratios=(_ratio(first), _ratio(second)),
        false_alarm=bool(losses(first, lambda: second)),
        found=bool(losses(slow_first, lambda: slow_second)),
    )


def pairs(name: str, given: argparse.Namespace, count: int) -> Iterator[GatePair]:
    """Measurements of one task. Raises BadInput on a device that measures nothing."""
    source = find_task(name).baseline + "\n// beside itself\n"
    with open_judge(name, device=given.device[0], cases="demo") as judge:
        if judge.device.kind != "cuda":
            raise BadInput("estimates have no noise: --device cuda")
        size = judge.task.least_bytes
        smallest = sorted(judge.weighted, key=lambda one: size(one[0]))[: given.cases]
        judge.weighted = tuple(smallest)
        before: Evaluation | None = None
        for first in _times(judge, source, count, given.together):
            again = partial(_again, judge, source)
            found = None
            if before is not None:
                found = bool(losses(slowed(before, given.loss), partial(slowed, first, given.loss)))
            before = first if before is None else None
            yield GatePair(
                task=name,
                gpu=judge.device.name,
                ratios=(_ratio(first),),
                false_alarm=bool(losses(first, again)),
                found=found,
            )


def _times(judge: Judge, source: str, count: int, together: int) -> Iterator[Evaluation]:
    """So many measurements of a kernel, several in one process, each on its own inputs."""
    each = len(judge.weighted)
    for begun in range(0, count, together):
        number = min(together, count - begun)
        seeds = [judge.entropy.timing(f"{begun} {turn}") for turn in range(number)]
        weighted = tuple(one for seed in seeds for one in reseeded(judge.weighted, seed))
        found = judge.time(source, weighted)
        if not isinstance(found, list):
            raise BadInput(f"{judge.task.name}: the baseline was not timed: {found.kind}")
        for turn in range(number):
            yield evaluation_of(judge.device, found[turn * each : (turn + 1) * each])


def _again(judge: Judge, source: str) -> Evaluation:
    return next(_times(judge, source, 1, 1))


def evaluation_of(device: Device, cases: Sequence[AnyTime]) -> Evaluation:
    """What the rule reads of an evaluation; nothing was checked or profiled for it."""
    ratio, verdict, why = judge_times(cases)
    found: dict[str, Any] = {"ratio": ratio, "verdict": verdict, "why": why}
    timed = Timed.model_construct(kind="timed", cases=tuple(cases), **found)
    return Evaluation.model_construct(candidate="", device=device, outcome=timed)


def _ratio(evaluation: Evaluation) -> float:
    assert isinstance(evaluation.outcome, Timed)
    return evaluation.outcome.ratio


def recorded_pairs(paths: Sequence[Path], loss: float, count: int) -> list[GatePair]:
    """Pairs that are drawn from recorded measurements of the same cases on the same kind of GPU.
    Raises BadInput where there are too few."""
    groups: dict[tuple[str, ...], list[Evaluation]] = {}
    for one in measured_evaluations(paths):
        outcome = one.outcome
        assert isinstance(outcome, Timed)
        labels = sorted(case.case.label for case in outcome.cases)
        groups.setdefault((one.device.name, *labels), []).append(one)
    several = {key: some for key, some in groups.items() if len(some) >= FEWEST}
    if not several:
        raise BadInput(f"no GPU has {FEWEST} recorded measurements of the same cases")
    draws = random.Random(0)
    found = []
    for _ in range(count):
        key = draws.choices(list(several), [len(some) for some in several.values()])[0]
        first, second, noise = draws.sample(several[key], FEWEST)
        a, b = (beside_itself(one, noise) for one in (first, second))
        found.append(pair(" ".join(key[1:2]), a, b, loss))
    return found


def measured_evaluations(paths: Sequence[Path]) -> Iterator[Evaluation]:
    """Those on a GPU whose samples were kept."""
    for path in expanded(paths):
        if path.name.endswith((".json", ".json.gz")):
            some = [one] if (one := read_evaluation(path)) else []
        else:
            some = list(evaluations_of(read(path).records))
        for one in some:
            timed = one.outcome
            if isinstance(timed, Timed) and all(
                isinstance(case, MeasuredTime) and case.raw for case in timed.cases
            ):
                yield one


def beside_itself(evaluation: Evaluation, other: Evaluation) -> Evaluation:
    """The measurement of the baseline beside itself that an evaluation contains, with the noise
    that another one found."""
    timed, noisy = evaluation.outcome, other.outcome
    assert isinstance(timed, Timed) and isinstance(noisy, Timed)
    noise = {one.case.label: one.noise for one in noisy.cases if isinstance(one, MeasuredTime)}
    cases = tuple(
        _beside_itself(one, noise[one.case.label])
        for one in timed.cases
        if isinstance(one, MeasuredTime)
    )
    ratio, verdict, why = judge_times(cases)
    changed = {"cases": cases, "ratio": ratio, "verdict": verdict, "why": why}
    return evaluation.model_copy(update={"outcome": timed.model_copy(update=changed)})


def _beside_itself(case: MeasuredTime, noise: float) -> MeasuredTime:
    blocks = steady(unpack(case.raw).blocks)
    low, middle, high = interval([math.log(b.baseline_us / b.control_us) for b in blocks])
    return case.model_copy(
        update={
            "median_us": statistics.median(b.control_us for b in blocks),
            "ratio": math.exp(middle),
            "ratio_low": math.exp(min(low, middle - noise)),
            "ratio_high": math.exp(max(high, middle + noise)),
            "noise": noise,
        }
    )


def summary(found: Sequence[GatePair]) -> Iterator[str]:
    """Both rates, over all tasks."""
    lost = [one for one in found if one.found is not None]
    for words, bad, of in (
        ("false alarms", sum(one.false_alarm for one in found), len(found)),
        ("losses missed", sum(not one.found for one in lost), len(lost)),
    ):
        if of:
            yield f"{words}: {bad} of {of}, at most {100 * upper_bound(bad, of):.2f} %"


def measured(given: argparse.Namespace) -> list[GatePair]:
    """Measure on one GPU, and append each measurement to the file."""
    last = time.monotonic() + given.limit
    found = read_pairs(given.out)
    done = Counter(one.task for one in found)
    with given.out.open("a") as file:
        for name in given.tasks:
            left = given.count - done[name]
            for one in pairs(name, given, left) if time.monotonic() < last else ():
                print(one.model_dump_json(), file=file, flush=True)
                found.append(one)
                if time.monotonic() > last:
                    break
    return found


def side_by_side(given: argparse.Namespace) -> list[GatePair]:
    """Measure on several GPUs, a process and a file for each. Raises BadInput where one fails."""
    count = -(-given.count // len(given.device))
    same = [f"--{name}={getattr(given, name)}" for name in ("loss", "limit", "together", "cases")]
    files = [given.out.with_suffix(f".{number}.jsonl") for number in range(len(given.device))]
    command = [sys.executable, "-m", "lab.gate_rates", *given.tasks, *same, f"--count={count}"]
    running = [
        subprocess.Popen([*command, "-o", str(file), "--device", device], stdout=subprocess.DEVNULL)
        for file, device in zip(files, given.device, strict=True)
    ]
    if any([one.wait() for one in running]):
        raise BadInput("a GPU was not measured: the message is above")
    return [one for file in files for one in read_pairs(file)]


def read_pairs(path: Path) -> list[GatePair]:
    text = path.read_text() if path.exists() else ""
    return [GatePair.model_validate_json(line) for line in text.splitlines()]


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--recorded", nargs="+", type=Path, metavar="RUN|EVALUATION")
    parser.add_argument("--device", action="append")
    parser.add_argument("--count", type=int, default=400, help="measurements per task")
    parser.add_argument(
        "--loss",
        type=float,
        default=0.03,
        help="slowdown of the changed kernel, as a share of its time",
    )
    parser.add_argument(
        "--limit", type=float, default=math.inf, help="time limit in seconds for all tasks"
    )
    parser.add_argument("--together", type=int, default=8, help="measurements per process")
    parser.add_argument("--cases", type=int, default=3, help="timed cases per measurement")
    given = parser.parse_args()
    given.device = given.device or ["cuda"]
    if given.recorded:
        found = recorded_pairs(given.recorded, given.loss, given.count)
    elif given.out is None or not given.tasks:
        raise BadInput("give TASK... and -o RATES.jsonl, or --recorded")
    else:
        found = side_by_side(given) if len(given.device) > 1 else measured(given)
    print("\n".join(summary(found)))


if __name__ == "__main__":
    main()
