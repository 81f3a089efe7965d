"""How often is `astra-chat gate` wrong on a GPU? `python -m lab.gate_rates TASK... -o RATES.jsonl`

Measures each task's baseline beside itself, twice as a gate does after an alarm: an alarm of both
is false. The same two measurements with every time of the new kernel `--loss` longer have a loss
that the rule should find. Each pair is appended to the file at once, so a command that was stopped
goes on. At the end stand both rates with the upper end of their one-sided 95 % interval.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from astra_chat.judging.opening import open_judge
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.judge import Judge
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.regression import losses
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import Timed, Value
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.soak import upper_bound


class GatePair(Value):
    """Two measurements of a kernel beside itself, and what the rule says of them."""

    task: str
    gpu: str
    ratios: tuple[float, float]
    false_alarm: bool
    found: bool
    """Whether it finds the loss that was put into both."""


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
    outcomes = [one.outcome for one in (first, second)]
    a, b = (one.ratio for one in outcomes if isinstance(one, Timed))
    return GatePair(
        task=task,
        gpu=first.device.name,
        ratios=(a, b),
        false_alarm=bool(losses(first, lambda: second)),
        found=bool(losses(slow_first, lambda: slow_second)),
    )


def pairs(name: str, device: str, loss: float, count: int) -> Iterator[GatePair]:
    """Pairs of one task. Raises BadInput on a device that measures nothing."""
    source = find_task(name).baseline + "\n// beside itself\n"
    for _ in range(count):
        with open_judge(name, device=device) as judge:
            if judge.device.kind != "cuda":
                raise BadInput("estimates have no noise: --device cuda")
            yield pair(name, _timed(judge, source, False), _timed(judge, source, True), loss)


def _timed(judge: Judge, source: str, fresh: bool) -> Evaluation:
    found = judge.evaluate(source, fresh_seeds=fresh)
    if not isinstance(found.outcome, Timed):
        raise BadInput(f"{judge.task.name}: the baseline was not timed: {found.outcome.kind}")
    return found


def summary(found: Sequence[GatePair]) -> Iterator[str]:
    """Both rates, over all tasks."""
    for words, bad in (
        ("false alarms", sum(one.false_alarm for one in found)),
        ("losses missed", sum(not one.found for one in found)),
    ):
        yield f"{words}: {bad} of {len(found)}, at most {100 * upper_bound(bad, len(found)):.2f} %"


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="+", metavar="TASK")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=400, help="pairs of each task")
    parser.add_argument("--loss", type=float, default=0.03, help="share of the time that is lost")
    given = parser.parse_args()
    text = given.out.read_text() if given.out.exists() else ""
    found = [GatePair.model_validate_json(line) for line in text.splitlines()]
    done = Counter(one.task for one in found)
    with given.out.open("a") as file:
        for name in given.tasks:
            for one in pairs(name, given.device, given.loss, given.count - done[name]):
                print(one.model_dump_json(), file=file, flush=True)
                found.append(one)
    for line in summary(found):
        print(line)


if __name__ == "__main__":
    main()
