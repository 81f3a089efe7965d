"""The estimate beside what a GPU measured of live runs' winners, which no constant is fitted to:

    python -m lab.live_estimates estimate FILE... -o ESTIMATES.json
    python -m lab.live_estimates show ESTIMATES.json FILE...

FILE as of live_runs.py. A winner and the baseline that its run started from are estimated for
the GPU that measured them, on the same cases. `estimate` writes as it goes; given again, it goes
on. `show` prints the table of docs/research/estimate.md. A pair is two kernels of a task on one
case and GPU whose measured times are more than 10 % apart, in order if the estimates are.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import NO_SEED
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.timing.intervals import mean
from astra_chat.tools.tuning.ranking import estimated_times
from astra_chat.tools.types import EstimatedTime, MeasuredTime, Timed, Value
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.commands import one_line_errors
from lab.live_runs import LiveRun, load
from lab.result_tables import table_row
from lab.virtual_gpu.validation.score import Scored, score
from lab.winners import source_of


class Winner(Value):
    """A measured winner's estimate, on the cases that were measured."""

    task: str
    tier: str
    gpu: str
    """Key in astra_vgpu/ground/gpu_specs.py."""
    candidate: str
    cases: tuple[EstimatedTime, ...]


class LiveEstimates(Value):
    """All that is estimated so far."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/live-estimates/1"] = Field(alias="schema")
    winners: tuple[Winner, ...] = ()


Pair = tuple[EstimatedTime, MeasuredTime]
Measured = Mapping[tuple[str, str], Sequence[MeasuredTime]]
"""Cases of each winner that a GPU timed, by candidate and key of the GPU."""


def read_estimates(path: Path) -> LiveEstimates:
    """Read what `estimate` wrote. Raises BadInput."""
    try:
        return LiveEstimates.model_validate_json(read_recorded(path))
    except (OSError, ValidationError) as error:
        raise BadInput(f"{path} contains no estimates: {type(error).__name__}") from None


def measured_on_gpus(runs: Sequence[LiveRun]) -> Measured:
    return {
        (found.candidate, found.device.spec): times
        for run in runs
        for found in run.measured.values()
        if isinstance(found.outcome, Timed)
        and (times := tuple(t for t in found.outcome.cases if isinstance(t, MeasuredTime)))
    }


def estimate(runs: Sequence[LiveRun], out: Path) -> None:
    """Estimate what was measured and is not yet in `out`; a kernel that the virtual GPU does not
    run is told."""
    known = read_estimates(out).winners if out.exists() else ()
    done = {(one.candidate, one.gpu) for one in known}
    for run in runs:
        for (candidate, gpu), times in measured_on_gpus([run]).items():
            if (candidate, gpu) in done:
                continue
            task, tier = find_task(run.summary.task), run.summary.options.tier
            source = source_of(run.path, candidate)
            weighted = tuple((time.case, time.weight) for time in times)
            (found,) = estimated_times(
                task,
                virtual_device(gpu),
                baseline_source(task, tier),
                [source],
                weighted,
                NO_SEED,
                Stop(),
            )
            if not isinstance(found, list):
                what = f"no estimate of {candidate}: {describe(found)}"
                print(f"{run.path}: {what}", file=sys.stderr, flush=True)
                continue
            cases = tuple(one.time for one in found if isinstance(one.time, EstimatedTime))
            known += (Winner(task=task.name, tier=tier, gpu=gpu, candidate=candidate, cases=cases),)
            written = LiveEstimates(schema="astra-chat/live-estimates/1", winners=known)
            write_whole(out, written.model_dump_json(indent=1).encode())
            print(
                f"{task.name} from {tier}, {gpu}: {len(cases)} cases", file=sys.stderr, flush=True
            )


def document(estimates: LiveEstimates, runs: Sequence[LiveRun]) -> str:
    """The table by task and GPU, and what all have in common."""
    times = measured_on_gpus(runs)
    groups: dict[tuple[str, str], list[Winner]] = defaultdict(list)
    for winner in estimates.winners:
        if len(times.get((winner.candidate, winner.gpu), ())) != len(winner.cases):
            raise BadInput(f"{winner.candidate} of {winner.task} was measured on other cases")
        groups[winner.gpu, winner.task].append(winner)
    return "\n".join(_lines(groups, times))


def _lines(
    groups: Mapping[tuple[str, str], Sequence[Winner]],
    measured: Measured,
) -> Iterator[str]:
    yield table_row(
        "task",
        "GPU",
        "winners, cases",
        "times: median error, bias",
        "pairs in order",
        "ratio over all cases: estimated, measured",
        "cases within their interval",
        "median half width",
    )
    yield table_row(*["---"] * 8)
    total = list[Pair]()
    ordered, of = 0, 0
    for (gpu, task), winners in sorted(groups.items()):
        pairs = [
            pair
            for one in winners
            for pair in zip(one.cases, measured[one.candidate, one.gpu], strict=True)
        ]
        right, all_ = _order(winners, measured)
        total, ordered, of = total + pairs, ordered + right, of + all_
        ratios = ", ".join(
            f"{_mean(one.cases):.2f} {_mean(measured[one.candidate, one.gpu]):.2f}"
            for one in winners
        )
        yield table_row(
            task,
            spec(gpu).name,
            f"{len(winners)}, {len(pairs)}",
            *_errors(pairs),
            f"{right}/{all_}",
            ratios,
            *_covered(pairs),
        )
    yield table_row(
        "all",
        "",
        f"{sum(map(len, groups.values()))}, {len(total)}",
        *_errors(total),
        f"{ordered}/{of} = {ordered / max(1, of):.1%}",
        "",
        *_covered(total),
    )


def _mean(times: Sequence[EstimatedTime] | Sequence[MeasuredTime]) -> float:
    return mean([(time.ratio, time.weight) for time in times])


def _errors(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yields the median error and the bias of the estimated times of baselines and winners, in
    percent; a bias above 0: estimated too slow."""
    logs = [
        math.log(estimated / measured)
        for guess, found in pairs
        for estimated, measured in (
            (guess.baseline_us, found.baseline_us),
            (guess.median_us, found.median_us),
        )
    ]
    middle = statistics.median(abs(log) for log in logs)
    yield f"{math.expm1(middle):.1%}, {math.expm1(statistics.median(logs)):+.1%}"


def _covered(pairs: Sequence[Pair]) -> Iterator[str]:
    inside = sum(guess.ratio_low <= found.ratio <= guess.ratio_high for guess, found in pairs)
    widths = [math.sqrt(guess.ratio_high / guess.ratio_low) - 1 for guess, _ in pairs]
    yield f"{inside}/{len(pairs)} = {inside / len(pairs):.0%}"
    yield f"{statistics.median(widths):.0%}"


def _order(winners: Sequence[Winner], measured: Measured) -> tuple[int, int]:
    """Pairs in order, and all; a tier's baseline counts once, with its first winner's times."""
    points: dict[tuple[str, str], Scored] = {}
    for one in winners:
        for guess, found in zip(one.cases, measured[one.candidate, one.gpu], strict=True):
            label = found.case.label
            base = Scored(label, one.tier, found.baseline_us, guess.baseline_us)
            points.setdefault((label, one.tier), base)
            own = Scored(label, one.candidate, found.median_us, guess.median_us)
            points[label, one.candidate] = own
    scored = score(list(points.values()))
    return scored.right, scored.pairs


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.live_estimates")
    commands = parser.add_subparsers(dest="what", required=True)
    made = commands.add_parser("estimate")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE")
    made.add_argument("-o", "--out", type=Path, required=True)
    shown = commands.add_parser("show")
    shown.add_argument("estimates", type=Path, metavar="ESTIMATES")
    shown.add_argument("files", nargs="+", type=Path, metavar="FILE")
    given = parser.parse_args()
    if given.what == "estimate":
        estimate(load(given.files), given.out)
    else:
        print(document(read_estimates(given.estimates), load(given.files)))


if __name__ == "__main__":
    main()
