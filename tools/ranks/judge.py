"""A kernel over several GPUs, judged: planned, then checked and timed on all ranks."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from astra_chat.tools.build.nvcc import Build, build_all, require_build
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.system.devices import cuda_device, gpu_handles, wanted_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.gpu_samples import interval
from astra_chat.tools.types import Case, Device, Value, candidate_id
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency
from astra_vgpu.ground.gpu_specs import spec
from astra_chat.tools.task.ranks import RanksTask
from astra_chat.tools.ranks.group import Ended, Group, group_of
from astra_chat.tools.ranks.messages import RIVAL, Burst, RankRequest, RankSide, Samples
from astra_chat.tools.ranks.plans import Planned, planned

CANDIDATE, BASELINE = "candidate", "baseline"
NORM = "fused_add_rmsnorm"
"""Task whose baseline follows NCCL's all-reduce."""
VIRTUAL_BURST, VIRTUAL_PATIENCE = 2, 6
"""Calls of a burst on virtual GPUs, and how many times the contract's limit of time ranks have
there: one that waits keeps a core busy, which its peers may need."""
MOST_VIRTUAL_TOKENS = 3
"""On a virtual GPU only cases of few rows are called: each takes seconds."""
Kind = Literal["virtual", "cuda"]
Tell = Callable[[str], None]


class Against(Value):
    """How many times as fast as another the candidate is, in one case or over all."""

    us: float
    ratio: float
    low: float
    high: float
    """Ends of the 95 % interval of the ratio."""


class RanksTime(Value):
    """Times of one case: medians of the slowest rank's, in microseconds a call."""

    case: Case
    weight: float
    us: float
    baseline: Against
    rival: Against | None
    """NCCL's all-reduce, then the kernel of fused_add_rmsnorm's baseline."""


class RanksEvaluation(Value):
    """What was found of a candidate."""

    task: str
    candidate: str
    device: str
    ranks: int
    seed: str
    outcome: Literal[
        "refused",
        "build_failed",
        "unsupported",
        "wrong",
        "crashed",
        "timed_out",
        "correct",
        "timed",
    ]
    message: str
    calls: int = 0
    """Calls that were compared with float64 on every rank."""
    launches: tuple[str, ...] = ()
    """What rank 0 launches, by case: no host code of the candidate ran beside device code."""
    times: tuple[RanksTime, ...] = ()


@dataclass(frozen=True)
class Asked:
    """How a candidate is judged."""

    ranks: int
    device: Device
    seed: Seed
    calls: int
    rounds: int
    """Samples of each side and case; 0: nothing is timed."""


def devices(task: RanksTask, kind: Kind, ranks: int | None) -> tuple[Device, int]:
    """The device of rank 0 and the number of ranks: the largest that the GPUs allow, or `ranks`.

    Raises BadInput for a number that the contract does not have, MissingDependency for too few GPUs
    or GPUs of several kinds.
    """
    if ranks is not None:
        task.require_ranks(ranks)
    least = ranks or task.contract.ranks[0]
    if kind == "virtual":
        return wanted_device("virtual"), least
    there = _gpu_count()
    if there < least:
        raise MissingDependency(
            f"{task.task.name} needs at least {least} GPUs: the driver shows {there};"
            " use --device virtual"
        )
    used = ranks or max(number for number in task.contract.ranks if number <= there)
    found = [cuda_device(index) for index in range(used)]
    if len({device.name for device in found}) > 1:
        names = ", ".join(device.name for device in found)
        raise MissingDependency(f"all ranks must be on GPUs of one kind, these are {names}")
    return found[0], used


def _gpu_count() -> int:
    import pynvml

    try:
        return len(gpu_handles())
    except pynvml.NVMLError:
        return 0


def evaluate(
    task: RanksTask,
    source: str,
    asked: Asked,
    tell: Tell,
    after_start: Callable[[Group], None] = lambda group: None,
) -> RanksEvaluation:
    """Judges a source.

    Args:
        task: Its contract.
        source: The candidate's text.
        asked: How it is judged.
        tell: Called with what is being done.
        after_start: Called with the group that checks, once its ranks have ended a first burst.

    Returns:
        The outcome, with what it rests on. Raises BadInput, MissingDependency and AstraError.
    """

    def found(outcome: str, message: str, **more: object) -> RanksEvaluation:
        fields = {"task": task.task.name, "candidate": candidate_id(source)}
        fields |= {"device": asked.device.name, "outcome": outcome, "message": message}
        return RanksEvaluation.model_validate(
            {**fields, "ranks": asked.ranks, "seed": asked.seed.text, **more}
        )

    cases = _check_cases(task, asked)
    tell("guard, build, audit, plan")
    plans = planned(task, source, cases, asked.ranks, asked.device, asked.seed)
    if not isinstance(plans, Planned):
        return found(plans.kind, describe(plans))
    launches = tuple(plan.summary for plan in plans.plans[0])
    tell(f"check: {asked.calls} calls on {asked.ranks} ranks")
    fault = _checked(task, asked, plans, cases, after_start)
    if fault is not None:
        return found(*fault, launches=launches)
    done = f"{asked.calls} calls of {len(cases)} shapes, all ranks alike and within tolerance"
    if not asked.rounds:
        return found("correct", done, calls=asked.calls, launches=launches)
    tell("time: candidate, baseline and NCCL by turns")
    times = timed(task, source, asked)
    if isinstance(times, Ended):
        return found(times.kind, times.message, launches=launches)
    return found("timed", done, calls=asked.calls, launches=launches, times=times)


def _check_cases(task: RanksTask, asked: Asked) -> tuple[Case, ...]:
    cases = task.cases("check", asked.ranks)
    if asked.device.kind == "virtual":
        cases = tuple(c for c in cases if c.dims.get("tokens", 1) <= MOST_VIRTUAL_TOKENS)
    if not cases:
        raise BadInput(f"{task.task.name} has no check case for {asked.ranks} ranks")
    return cases


def _checked(
    task: RanksTask,
    asked: Asked,
    plans: Planned,
    cases: Sequence[Case],
    after_start: Callable[[Group], None],
) -> tuple[str, str] | None:
    """What is wrong: the outcome and a message; None where nothing is."""
    requests = [
        _request(task, asked, rank, cases).model_copy(
            update={"sides": (_side(CANDIDATE, plans.build, plans.plans[rank]),)}
        )
        for rank in range(asked.ranks)
    ]
    first = [True]
    patience = VIRTUAL_PATIENCE if asked.device.kind == "virtual" else 1
    with group_of(requests, patience * task.contract.timeout_s) as group:

        def seen(rank: int, message: object) -> None:
            if first and isinstance(message, Burst):
                first.clear()
                after_start(group)

        ended = group.run(seen)
        bursts = group.results(Burst)
    if ended is not None:
        _require_machine(ended)
        return ended.kind, ended.message
    for rank, reported in enumerate(bursts):
        if wrong := next((burst.wrong for burst in reported if burst.wrong), ""):
            return "wrong", f"rank {rank}: {wrong}"
    sums = [[total for burst in reported for total in burst.checksums] for reported in bursts]
    if (call := unlike(sums)) is not None:
        return "wrong", f"call {call}: the ranks hold different bits of what they must hold alike"
    return None


def unlike(sums: Sequence[Sequence[int]]) -> int | None:
    """The first call after which not all ranks held the same."""
    calls = zip(*sums, strict=True)
    return next((number for number, held in enumerate(calls) if len(set(held)) > 1), None)


def _require_machine(ended: Ended) -> None:
    """Raises MissingDependency where the machine is at fault."""
    if ended.kind == "lacking":
        raise MissingDependency(f"{ended.message} (before any launch: GPUs need peer access)")


def _request(task: RanksTask, asked: Asked, rank: int, cases: Sequence[Case]) -> RankRequest:
    virtual = asked.device.kind == "virtual"
    return RankRequest(
        folder=task.task.folder,
        rank=rank,
        ranks=asked.ranks,
        device=asked.device.kind,
        spec=asked.device.spec,
        cases=tuple(task.of_rank(case, rank) for case in cases),
        sides=(),
        seed=asked.seed.of("check").text,
        calls=asked.calls,
        **({"burst": VIRTUAL_BURST} if virtual else {}),
    )


def _side(name: str, build: Build, plans: Sequence[LaunchPlan]) -> RankSide:
    used = {one.kernel: (one.registers, one.static_shared_bytes) for one in build.resources}
    return RankSide(name=name, cubin=build.cubin, ptx=build.ptx, resources=used, plans=tuple(plans))


def timed(task: RanksTask, source: str, asked: Asked) -> tuple[RanksTime, ...] | Ended:
    """Times a source beside the baseline and NCCL, on GPUs. Raises BadInput, AstraError."""
    cases = task.cases("bench", asked.ranks)
    weights = {case.key: weight for case, weight in task.task.bench}
    texts = {CANDIDATE: source, BASELINE: task.task.baseline}
    made = {}
    for name, text in texts.items():
        plans = planned(task, text, cases, asked.ranks, asked.device, asked.seed)
        if not isinstance(plans, Planned):
            raise BadInput(f"the {name} of {task.task.name}: {describe(plans)}")
        made[name] = plans
    norm = _norm(cases, asked)
    with tempfile.TemporaryDirectory(prefix="astra-ranks-") as folder:
        requests = [
            _request(task, asked, rank, cases).model_copy(
                update={
                    "sides": tuple(_side(n, p.build, p.plans[rank]) for n, p in made.items()),
                    "norm": norm,
                    "calls": 0,
                    "rounds": asked.rounds,
                    "meeting": Path(folder) / "meeting",
                }
            )
            for rank in range(asked.ranks)
        ]
        with group_of(requests, task.contract.timeout_s) as group:
            ended = group.run()
            samples = group.results(Samples)
    if ended is not None:
        _require_machine(ended)
        return ended
    return tuple(
        slowest_time(case, weights[case.key], [by_rank[number].us for by_rank in samples])
        for number, case in enumerate(cases)
    )


def _norm(cases: Sequence[Case], asked: Asked) -> RankSide:
    """The baseline of fused_add_rmsnorm for the same rows."""
    task = find_task(NORM)
    rows = [
        Case(dims={d: case.dims[d] for d in ("tokens", "h")}, dtype="bfloat16") for case in cases
    ]
    made = build_all(task, [task.baseline], asked.device, Stop())[0]
    build = require_build(made, f"the baseline of {NORM}")
    plans = record(build, task, rows, spec(asked.device.spec), asked.seed.of(NORM).random())
    if not isinstance(plans, tuple):
        raise AstraError(f"the baseline of {NORM} has no launch plans: {describe(plans)}")
    return _side(NORM, build, plans)


def slowest_time(
    case: Case, weight: float, by_rank: Sequence[dict[str, tuple[float, ...]]]
) -> RanksTime:
    """The slowest rank's time of each sample; a round's two samples of a side are one."""
    slowest = {
        name: np.max([us[name] for us in by_rank], axis=0).reshape(-1, 2).mean(axis=1)
        for name in by_rank[0]
    }
    mine = slowest[CANDIDATE]

    def against(name: str) -> Against:
        low, middle, high = interval(np.log(slowest[name] / mine).tolist())
        ratios = {"ratio": math.exp(middle), "low": math.exp(low), "high": math.exp(high)}
        return Against(us=float(np.median(slowest[name])), **ratios)

    rival = against(RIVAL) if RIVAL in slowest else None
    us = float(np.median(mine))
    return RanksTime(case=case, weight=weight, us=us, baseline=against(BASELINE), rival=rival)
