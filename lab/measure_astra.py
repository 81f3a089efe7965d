"""Measure Astra itself: `python -m lab.measure_astra WHAT` (see `--help`)."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from astra_chat.tools.descriptions import describe
from astra_chat.tools.evaluation import BuildReport, Built, Evaluation
from astra_chat.tools.mutation.scores import CaseScore, CaseScores
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import (
    Basis,
    Case,
    Correct,
    Device,
    EstimatedTime,
    MeasuredTime,
    Profile,
    Timed,
    candidate_id,
)

if TYPE_CHECKING:
    from astra_chat.tools.build.nvcc import Build
    from astra_chat.tools.judge import Judge
    from astra_chat.tools.task.folder import Task

REPEATS = 5


class InstantJudge:
    """Answers at once, so that only the chat's own time is left: every candidate ties with the
    baseline, or with `gains` each is a hundredth faster than the one before."""

    def __init__(self, device: Device, case: Case, gains: bool = False) -> None:
        profile = Profile(
            basis="estimated",
            case=case,
            metrics=(),
            bottleneck="dram",
            why="",
            limit_us=1.0,
            percent_of_limit=100.0,
        )
        time = EstimatedTime(
            case=case,
            weight=1.0,
            baseline_us=1.0,
            median_us=1.0,
            ratio=1.0,
            ratio_low=1.0,
            ratio_high=1.0,
            limit_us=1.0,
            percent_of_limit=100.0,
            limiter="dram",
        )
        self._device, self._gains, self._evaluated = device, gains, 0
        self._outcome = Timed(
            correct=Correct(cases=1, worst=0.0),
            cases=(time,),
            ratio=1.0,
            verdict="tie",
            why="",
            profile=profile,
        )

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        return BuildReport(candidate=candidate_id(source), result=Built(resources=()), steps=())

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        outcome = self._outcome
        if self._gains and self._evaluated:
            ratio = 1 + self._evaluated / 100
            outcome = outcome.model_copy(update={"ratio": ratio, "verdict": "accepted"})
        self._evaluated += 1
        return Evaluation(
            candidate=candidate_id(source),
            device=self._device,
            outcome=outcome,
            confirms=fresh_seeds,
        )

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        scores = tuple(CaseScore(case=case, kills=("a bug",)) for case in cases)
        return CaseScores(asked=mutants, mutants=("a bug",), own=("a bug",), cases=scores)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        return Tuning(
            candidate=candidate_id(source), combinations=1, points=(), start={}, best={}, seconds=0
        )

    def cancel(self) -> None:
        """Nothing runs long enough to be stopped."""


def startup() -> None:
    """Wall time of `astra-chat --help` and of a replay, best and median of five, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        transcript = _chat(Path(folder) / "run")[2]
        for words in (["--help"], ["replay", str(transcript)]):
            command = [sys.executable, "-m", "astra_chat", *words]
            seconds = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                seconds.append(time.perf_counter() - start)
            best, median = min(seconds), statistics.median(seconds)
            print(f"astra-chat {words[0]}: best {best:.2f} s, median {median:.2f} s")


def turns() -> None:
    """Wall time of a turn of a scripted chat whose judge answers at once, in milliseconds."""
    each = []
    with tempfile.TemporaryDirectory() as folder:
        _chat(Path(folder) / "warm-up")
        for number in range(REPEATS):
            seconds, count, _ = _chat(Path(folder) / str(number))
            each.append(1e3 * seconds / count)
    print(
        f"one turn without tools, transcript on disk included:"
        f" best {min(each):.2f} ms, median {statistics.median(each):.2f} ms ({count} turns)"
    )


def judge(device: str, most: int) -> None:
    """Wall time of the judge's steps, task by task, in seconds: each correct scripted kernel, at
    most the last `most`, is evaluated as in a run, builds included, and the last accepted one
    confirmed.

    The first evaluation of a run also makes the oracle's results, which later ones find.
    """
    from astra_chat.models.script import load_script, scripted_names
    from astra_chat.tools.judge import Judge
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task

    chosen = pick_device(device)
    basis: Basis = "measured" if chosen.kind == "cuda" else "estimated"
    good = ("accepted", "tie", "slower")
    for task in map(find_task, scripted_names()):
        script = load_script(task)
        right = [k for k in script.kernels() if k.expects.on(basis) in good][-most:]
        with tempfile.TemporaryDirectory() as cache:
            os.environ["ASTRA_CACHE"] = cache
            with Judge(task, chosen, trust=True) as the_judge:
                print(f"{task.name} on {chosen.name}: {len(task.check)} check cases")
                the_judge.evaluate(the_judge.baseline)
                later = [_timed_steps(the_judge, script.sources[k.name], k.name) for k in right]
                print(f"median of {len(later)} evaluations: {statistics.median(later):.1f} s")
                best = [k for k in right if k.expects.on(basis) == "accepted"][-1]
                _timed_steps(the_judge, script.sources[best.name], "confirmation", fresh=True)


def _timed_steps(the_judge: Judge, source: str, name: str, *, fresh: bool = False) -> float:
    """Evaluate, print the seconds of each step, and return those of all."""
    start = time.perf_counter()
    evaluation = the_judge.evaluate(source, fresh_seeds=fresh)
    total = time.perf_counter() - start
    steps = ", ".join(f"{step.name} {step.seconds:.1f}" for step in evaluation.steps)
    print(f"{name}: {total:.1f} s ({steps}), {describe(evaluation.outcome)[:90]}", flush=True)
    return total


def mutation(count: int) -> None:
    """The mutation score of every shipped task's own check cases, and its wall time in seconds."""
    from astra_chat.tools.mutation.mutant_runs import Scorer
    from astra_chat.tools.run.oracle import Oracle
    from astra_chat.tools.system.subprocesses import Stop
    from astra_chat.tools.task.folder import find_task, task_names

    with tempfile.TemporaryDirectory() as cache:
        os.environ["ASTRA_CACHE"] = cache
        for name in task_names():
            task = find_task(name)
            oracle, start = Oracle(task), time.perf_counter()
            score = Scorer(task, oracle, task.baseline, Stop(), count).suite()
            oracle.close()
            print(f"{name}: {time.perf_counter() - start:.1f} s", *score.lines(), sep="\n")


def checks(device: str, names: Sequence[str]) -> None:
    """Seconds that the baseline's check cases take, task by task, with builds at hand;
    inputs and the oracle's results are made, too: wall time, and processor time of all
    processes."""
    from astra_chat.tools.build.nvcc import Build, build
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task, task_names

    chosen, sums = pick_device(device), [0.0, 0.0]
    for task in map(find_task, names or task_names()):
        built = build(task, task.baseline, chosen)
        assert isinstance(built, Build), built
        _check_cases(task, built, chosen)  # builds what the virtual GPU compiles
        start = (time.perf_counter(), sum(os.times()[:4]))
        _check_cases(task, built, chosen)
        seconds = (time.perf_counter() - start[0], sum(os.times()[:4]) - start[1])
        sums = [total + one for total, one in zip(sums, seconds, strict=True)]
        print(f"{task.name}: {len(task.check)} cases, {seconds[0]:.1f} s,", end=" ")
        print(f"of processors {seconds[1]:.1f} s", flush=True)
    print(f"all: {sums[0]:.1f} s, of processors {sums[1]:.1f} s")


def _check_cases(task: Task, built: Build, device: Device) -> None:
    from astra_chat.tools.check.compare import compare
    from astra_chat.tools.run.case_run import CaseRun
    from astra_chat.tools.run.oracle import Oracle
    from astra_chat.tools.run.runner import Runner
    from astra_chat.tools.system.subprocesses import Stop
    from astra_chat.tools.types import Wrong

    oracle = Oracle(task)
    oracle_cases = oracle.oracle_cases(task.check, Stop())
    for run in Runner(task, device).run(built, oracle_cases, "check"):
        assert isinstance(run, CaseRun), run
        wrong = compare(task, run)
        assert not isinstance(wrong, Wrong), wrong
    oracle.close()


def noise(device: str, repeats: int, names: Sequence[str]) -> None:
    """How often a baseline timed against itself would be accepted: each comparison on its own.

    Reads on a GPU; an estimate has no noise.
    """
    from astra_chat.tools.build.nvcc import Build, build
    from astra_chat.tools.run.oracle import Oracle
    from astra_chat.tools.run.runner import Runner
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.system.subprocesses import Stop
    from astra_chat.tools.task.folder import find_task, task_names
    from astra_chat.tools.timing.verdict import time_cases
    from astra_vgpu.ground.errors import BadInput

    chosen, times = pick_device(device), list[MeasuredTime]()
    if chosen.kind != "cuda":
        raise BadInput("noise is measured on a GPU: --device cuda")
    for task in map(find_task, names or task_names()):
        built = build(task, task.baseline, chosen)
        assert isinstance(built, Build)
        oracle = Oracle(task)
        oracle_cases = oracle.oracle_cases([case for case, _ in task.bench], Stop())
        runner = Runner(task, chosen)
        for _ in range(repeats):
            runner.prepare("time", oracle.inputs, 2)  # the next one loads while this one times
            timed = time_cases(runner, oracle, built, built, [(t, 1.0) for t in oracle_cases])
            assert isinstance(timed, list), timed
            times += [t.time for t in timed if isinstance(t.time, MeasuredTime)]
        runner.dismiss()
        oracle.close()
        _print_noise(chosen.name, times)


def _print_noise(name: str, times: Sequence[MeasuredTime]) -> None:
    """Print the verdicts of the comparisons so far, and how wide their intervals are."""
    from astra_chat.tools.timing.verdict import judge_times

    verdicts = [judge_times([time])[1] for time in times]
    print(f"baselines against themselves on {name}: {len(times)} comparisons")
    print({verdict: verdicts.count(verdict) for verdict in ("accepted", "tie", "slower")})
    widths = sorted(time.ratio_high / time.ratio_low - 1 for time in times)
    middle = widths[len(widths) // 2]
    print(f"interval's width: median {middle:.2%}, widest {widths[-1]:.2%}", flush=True)


WIDTH_CASES = ({"tokens": 16, "d": 4096}, {"tokens": 512, "d": 11008}, {"tokens": 4096, "d": 18944})
"""Dims of silu_and_mul whose cases take about 2, 10 and 100 us in bfloat16 on an H200."""
WIDTH_BLOCKS = 160


def width(device: str) -> None:
    """Width of a ratio's interval against the time spent on it: the baseline against itself.

    Reads on a GPU. One line per case and number of blocks, of one long measurement.
    """
    from astra_chat.tools.build.nvcc import Build, build
    from astra_chat.tools.run.case_run import CaseRun
    from astra_chat.tools.run.oracle import Oracle
    from astra_chat.tools.run.runner import Runner
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.system.subprocesses import Stop
    from astra_chat.tools.task.folder import find_task
    from astra_chat.tools.timing.gpu_samples import log_ratios, steady, width_of
    from astra_vgpu.ground.errors import BadInput

    task, chosen = find_task("silu_and_mul"), pick_device(device)
    if chosen.kind != "cuda":
        raise BadInput("widths are measured on a GPU: --device cuda")
    built = build(task, task.baseline, chosen)
    assert isinstance(built, Build)
    oracle, runner = Oracle(task), Runner(task, chosen, least_blocks=WIDTH_BLOCKS)
    oracle_cases = oracle.oracle_cases(
        [Case(dims=d, dtype="bfloat16") for d in WIDTH_CASES], Stop()
    )
    for run in runner.run(built, oracle_cases, "time", built):
        assert isinstance(run, CaseRun), run
        blocks = run.report.measured.blocks
        microseconds = statistics.median(block.baseline_us for block in blocks)
        print(f"{run.oracle_case.case.label}: {microseconds:.2f} us")
        for count in (5, 10, 20, 40, 80, 160):
            some = steady(blocks[:count])
            narrow = width_of(log_ratios(some))
            spent_s = blocks[count - 1].spent_s
            print(f"  {count:3d} blocks, {spent_s:.3f} s: 95 % interval {narrow:.2%} wide")
    oracle.close()


def _chat(folder: Path) -> tuple[float, int, Path]:
    """Seconds from the first to the last record of a chat, its turns, and its transcript."""
    from astra_chat.session.request import SessionOptions, request_for
    from astra_chat.session.session import run_request
    from astra_chat.transcript.options import RunOptions
    from astra_chat.transcript.reader import read

    request = request_for(
        RunOptions(), SessionOptions(task="silu_and_mul", device="virtual", out=folder)
    )
    judge = InstantJudge(request.device, request.task.demo[0][0])
    result = run_request(request, judge=judge)
    records = read(result.transcript).records
    return records[-1].t, records[-1].turn, result.transcript


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.measure_astra", description=__doc__)
    known = ["startup", "turns", "judge", "checks", "mutation", "noise", "width"]
    parser.add_argument("what", choices=known)
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help="tasks for checks and noise; default: all"
    )
    parser.add_argument(
        "--device",
        default="virtual",
        help="device for judge, checks, noise and width: virtual, cuda or cuda:N",
    )
    parser.add_argument(
        "--repeats", type=int, default=8, help="for noise: runs over all cases of all tasks"
    )
    parser.add_argument(
        "--kernels", type=int, default=100, help="for judge: maximum number of kernels per task"
    )
    parser.add_argument(
        "--mutants", type=int, default=48, help="for mutation: seeded bugs per task"
    )
    asked = parser.parse_args()
    if asked.what == "judge":
        judge(asked.device, asked.kernels)
    elif asked.what == "checks":
        checks(asked.device, asked.tasks)
    elif asked.what == "mutation":
        mutation(asked.mutants)
    elif asked.what == "noise":
        noise(asked.device, asked.repeats, asked.tasks)
    elif asked.what == "width":
        width(asked.device)
    else:
        {"startup": startup, "turns": turns}[asked.what]()


if __name__ == "__main__":
    main()
