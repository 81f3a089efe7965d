"""Times beside rivals, and soaks: built, planned and run on GPUs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astra_chat.tools.build.nvcc import Build, build_all, require_build
from astra_chat.tools.descriptions import describe
from astra_chat.tools.plan.record import record
from astra_chat.tools.ranks.checks import BASELINE, CANDIDATE
from astra_chat.tools.ranks.evaluating import RanksEvaluating
from astra_chat.tools.ranks.group import Ended, RankGroup, group_of
from astra_chat.tools.ranks.judge import RanksJudge
from astra_chat.tools.ranks.plans import Planned, planned, side_of
from astra_chat.tools.ranks.requests import rank_requests
from astra_chat.tools.ranks.times import Against, against, slowest
from astra_chat.tools.run.rank_messages import Burst, RankSide, Samples
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.ranks import RANKS
from astra_chat.tools.types import Case, Value
from astra_vgpu.ground.errors import AstraError, BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.ranks.messages import LabRequest

PROGRAM = (sys.executable, "-m", "lab.ranks.inside.program")
NORM = "fused_add_rmsnorm"
"""Task whose baseline follows every rival's all-reduce."""


class RivalTime(Value):
    """One case: the kernel beside each other side, by the slowest rank's times."""

    case: Case
    us: float
    beside: dict[str, Against]


def cases_of(judge: RanksJudge, tokens: Sequence[int], hidden: Sequence[int]) -> list[Case]:
    """All combinations, for the group that the judge times."""
    ranks = judge.ranks.numbers.timed
    like = judge.weighted[0][0]
    made = [
        like.model_copy(update={"dims": {"tokens": t, "h": h, RANKS: ranks}})
        for h in hidden
        for t in tokens
    ]
    judge.require_judged(made)
    return made


def beside_rivals(
    judge: RanksJudge, source: str, cases: Sequence[Case], rounds: int
) -> tuple[list[RivalTime], list[str]]:
    """Times a source by turns with the baseline and every rival that the machine has.

    Returns:
        A row for each case, and what rank 0 printed of rivals that are missing. Raises BadInput
        for a source that cannot be timed, and AstraError where a rank ended.
    """
    sides = {CANDIDATE: built(judge, source), BASELINE: built(judge, judge.baseline)}
    plans = {name: plans_of(judge, build, cases) for name, build in sides.items()}
    norm = _norm(judge, cases)

    with _group(judge, cases, plans, norm=norm, rounds=rounds) as group:
        _require_done(group.run(stop=judge.stop))
        samples, said = group.results(Samples), group.errors(0)
    rows = []
    for at, case in enumerate(cases):
        us = [one[at].us for one in samples]
        beside = {name: against(name, us) for name in us[0] if name != CANDIDATE}
        mine = sorted(slowest(CANDIDATE, us))
        rows.append(RivalTime(case=case, us=float(mine[len(mine) // 2]), beside=beside))
    return rows, [line for line in said.splitlines() if line.startswith("without ")]


def soaked(
    judge: RanksJudge,
    source: str,
    cases: Sequence[Case],
    calls: int,
    tell: Callable[[int], None],
    after_start: Callable[[RankGroup], None] = lambda group: None,
) -> tuple[int, str]:
    """Makes so many calls, each compared on the device.

    Returns:
        Calls that were made without a fault, and what was wrong then; "" where nothing was.
    """
    plans = plans_of(judge, built(judge, source), cases)

    done, first = [0], [True]

    def seen(rank: int, message: object) -> None:
        if isinstance(message, Burst) and rank == 0 and message.wrong is None:
            done[0] += message.elements
            tell(done[0])
        if first and isinstance(message, Burst):
            first.clear()
            after_start(group)

    with _group(judge, cases, {CANDIDATE: plans}, soak=calls) as group:
        ended = group.run(seen, judge.stop)
        bursts = group.results(Burst)
    if ended is not None:
        return done[0], f"{ended.kind}: {ended.message}"
    found = (burst.wrong for by_rank in bursts for burst in by_rank)
    wrong = next(filter(None, found), None)
    return done[0], "" if wrong is None else f"wrong: {wrong.model_dump_json()}"


def built(judge: RanksJudge, source: str) -> Build:
    """Guards, builds and audits a source. Raises BadInput where that fails."""
    found = RanksEvaluating(judge.ranks, source).build()
    if not isinstance(found, Build):
        raise BadInput(describe(found))
    return found


def plans_of(judge: RanksJudge, build: Build, cases: Sequence[Case]) -> Planned:
    """Launch plans of all ranks. Raises BadInput where there are none."""
    ranks, seed = judge.ranks.numbers.timed, judge.entropy.cases
    gpu = spec(judge.device.spec)
    found = planned(build, judge.task, cases, ranks, gpu, seed, judge.stop)
    if not isinstance(found, Planned):
        raise BadInput(describe(found))
    return found


@contextmanager
def _group(
    judge: RanksJudge, cases: Sequence[Case], plans: Mapping[str, Planned], **work: Any
) -> Iterator[RankGroup]:
    """The group that the judge times. `work`: further fields of a request."""
    assert judge.task.ranks is not None
    ranks, seed = judge.ranks.numbers.timed, judge.entropy.cases
    with tempfile.TemporaryDirectory(prefix="astra-ranks-") as folder:
        work["meeting"] = Path(folder) / "meeting"
        asked = rank_requests(
            LabRequest, judge.task, judge.device, ranks, cases, plans, seed, **work
        )
        with group_of(asked, judge.task.ranks.timeout_s, PROGRAM) as group:
            yield group


def _require_done(ended: Ended | None) -> None:
    if ended is not None:
        raise AstraError(f"the ranks ended ({ended.kind}): {ended.message}")


def _norm(judge: RanksJudge, cases: Sequence[Case]) -> RankSide:
    """The baseline of fused_add_rmsnorm for the same rows."""
    task = find_task(NORM)
    rows = [
        Case(dims={d: case.dims[d] for d in ("tokens", "h")}, dtype="bfloat16") for case in cases
    ]
    made = build_all(task, [task.baseline], judge.device, Stop())[0]
    build = require_build(made, f"the baseline of {NORM}")
    seed = judge.entropy.cases.of(NORM).random()
    plans = record(build, task, rows, spec(judge.device.spec), seed)
    if not isinstance(plans, tuple):
        raise AstraError(f"the baseline of {NORM} has no launch plan: {describe(plans)}")
    return side_of(NORM, build, plans)
