"""The check of a kernel over several GPUs: its cases, its groups, and what they found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.entropy import Seed
from astra_chat.tools.evaluation import CheckRecord
from astra_chat.tools.ranks.group import Ended, RankGroup, group_of
from astra_chat.tools.ranks.plans import Planned
from astra_chat.tools.ranks.requests import rank_requests
from astra_chat.tools.run.rank_messages import Burst, Counted, RankRequest
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.ranks import RANKS, RanksContract, of_all
from astra_chat.tools.types import (
    Case,
    Correct,
    Crashed,
    Device,
    TimedOut,
    Unsafe,
    Unsupported,
    ValueFamily,
    Wrong,
)
from astra_vgpu.ground.errors import MissingDependency

CALLS, VIRTUAL_CALLS = 1000, 16
"""Calls of a check, on GPUs and on virtual ones."""
VIRTUAL_BURST, VIRTUAL_PATIENCE = 2, 6
"""Calls of a burst on virtual GPUs, and how many times the contract's limit of time ranks have
there: one that waits keeps a core busy, which its peers may need."""
DRAWN, VIRTUAL_DRAWN = 12, 3
"""Cases that are drawn for each check, by device."""
MOST_VIRTUAL_BYTES, SHORT_BYTES = 2**19, 2**16
"""Bytes of a rank's input in the largest case that virtual GPUs are given, and in the largest drawn
one there."""
FAMILIES: tuple[ValueFamily, ...] = ("normal", "normal", "large", "tiny", "heavy_tail", "ramp")
CANDIDATE, BASELINE = "candidate", "baseline"
Failure = Wrong | Unsafe | Crashed | TimedOut | Unsupported


@dataclass(frozen=True)
class CheckCases:
    """What one group is called with."""

    visible: tuple[Case, ...]
    drawn: tuple[Case, ...]

    @property
    def all(self) -> tuple[Case, ...]:
        """Both, the visible ones first."""
        return (*self.visible, *self.drawn)


def cases_for(
    task: Task,
    contract: RanksContract,
    ranks: int,
    device: Device,
    extra: Sequence[Case],
    seed: Seed,
) -> CheckCases:
    """Cases of one group: the task's, those that somebody gave, and drawn ones."""
    given = [case for case in (*task.check, *extra) if case.dims[RANKS] == ranks]
    if device.kind == "cuda":
        return CheckCases(tuple(given), _drawn(task, ranks, DRAWN, seed, given[0], lambda _: True))

    def short(case: Case) -> bool:
        return contract.shared.arg.bytes_of(case) <= SHORT_BYTES

    visible = tuple(c for c in given if contract.shared.arg.bytes_of(c) <= MOST_VIRTUAL_BYTES)
    return CheckCases(visible, _drawn(task, ranks, VIRTUAL_DRAWN, seed, given[0], short))


def _drawn(
    task: Task, ranks: int, count: int, seed: Seed, like: Case, fits: Callable[[Case], bool]
) -> tuple[Case, ...]:
    """Cases of the contract's domain: shapes, value families."""
    draw, found = seed.of("drawn", ranks).random(), list[Case]()
    for _ in range(100 * count):
        dims = {
            name: dim.nearest(draw.randint(dim.min, dim.max), like.dtype)
            for name, dim in task.dims.items()
        }
        if draw.random() < 0.5 or not fits(like.model_copy(update={"dims": dims})):
            first = next(iter(dims))
            dims[first] = task.dims[first].nearest(draw.randint(1, 3), like.dtype)
        values = draw.choice(FAMILIES)
        case = Case(dims={**dims, RANKS: ranks}, dtype=like.dtype, types=like.types, values=values)
        if len(found) < count and case not in found and fits(case) and task.allows(case):
            found.append(case)
    return tuple(found)


@dataclass
class GroupCheck:
    """One group's check of a candidate, and what is counted after it."""

    task: Task
    contract: RanksContract
    device: Device
    seed: Seed
    stop: Stop
    tell: Callable[[int, int, str], None]
    after_start: Callable[[RankGroup], None] = lambda group: None
    """Called with the group once its ranks have ended a first burst."""
    counted: list[list[Counted]] = field(default_factory=list)
    """Each rank's counts, by counted case."""
    worst: float = 0.0
    elements: int = 0

    def run(
        self, plans: Planned, cases: Sequence[Case], ranks: int, calls: int, counted: int = 0
    ) -> Failure | None:
        """Calls the cases; the last `counted` ones are counted instead. None where nothing is
        wrong. Raises MissingDependency where the machine is at fault, and Cancelled."""
        virtual = self.device.kind == "virtual"
        burst = VIRTUAL_BURST if virtual else 20
        requests = rank_requests(
            RankRequest,
            self.task,
            self.device,
            ranks,
            cases,
            {CANDIDATE: plans},
            self.seed.of("check", ranks),
            counted=counted,
            calls=calls,
            burst=burst,
        )
        limit_s = self.contract.timeout_s * (VIRTUAL_PATIENCE if virtual else 1)
        with group_of(requests, limit_s) as group:
            ended = group.run(self._seen(group, calls, burst), self.stop)
            bursts, counts = group.results(Burst), group.results(Counted)
        if ended is not None:
            return failure_of(ended, of_all(cases[0]))
        self.counted = [[by_rank[at] for by_rank in counts] for at in range(counted)]
        self.worst = max((one.worst for by_rank in bursts for one in by_rank), default=0.0)
        self.elements = sum(one.elements for by_rank in bursts for one in by_rank)
        return _wrong(bursts) or _unlike(bursts, self.contract, of_all(cases[0]))

    def _seen(self, group: RankGroup, calls: int, burst: int) -> Callable[[int, object], None]:
        first = [True]

        def seen(rank: int, message: object) -> None:
            if isinstance(message, Burst) and rank == 0:
                done = min(calls, (message.number + 1) * burst)
                self.tell(done, calls, f"calls on {len(group.processes)} ranks")
            if first and isinstance(message, Burst):
                first.clear()
                self.after_start(group)

        return seen


def failure_of(ended: Ended, case: Case) -> Failure:
    """The outcome of a group that was ended. Raises MissingDependency for the machine's fault."""
    failed = ended.failed
    if ended.kind == "lacking":
        raise MissingDependency(f"{ended.message} (before any launch: the GPUs need peer access)")
    if ended.kind == "timed_out":
        return TimedOut(step="check", limit_s=ended.limit_s, note=ended.message)
    if ended.kind == "unsafe" and failed is not None:
        where = f"rank {ended.rank}, {failed.where}"
        return Unsafe(case=case, what=failed.message, where=where)
    if ended.kind == "unsupported" and failed is not None:
        return Unsupported(
            what=failed.message, kernel=failed.where, opcode=failed.opcode, line=failed.line
        )
    return Crashed(case=case, message=ended.message)


def _wrong(bursts: Sequence[Sequence[Burst]]) -> Wrong | None:
    """The first rank's first wrong result."""
    for rank, reported in enumerate(bursts):
        for burst in reported:
            if (found := burst.wrong) is not None:
                note = f"rank {rank}, call {found.call}"
                return Wrong(
                    case=of_all(found.case),
                    argument=found.argument,
                    reason=found.reason,
                    index=found.index,
                    expected=found.expected,
                    got=found.got,
                    bad=found.bad,
                    total=found.total,
                    note=f"{note}; {found.note}" if found.note else note,
                )
    return None


def unlike(sums: Sequence[Sequence[int]]) -> int | None:
    """The first call after which not all ranks held the same."""
    calls = zip(*sums, strict=True)
    return next((number for number, held in enumerate(calls) if len(set(held)) > 1), None)


def _unlike(bursts: Sequence[Sequence[Burst]], contract: RanksContract, case: Case) -> Wrong | None:
    sums = [[total for burst in reported for total in burst.checksums] for reported in bursts]
    if (call := unlike(sums)) is None:
        return None
    return Wrong(
        case=case,
        argument=contract.alike[0],
        reason="ranks_differ",
        index=(),
        expected=0.0,
        got=0.0,
        bad=0,
        total=0,
        note=f"call {call}: all ranks must have the same bits of {', '.join(contract.alike)}",
    )


@dataclass
class CheckSums:
    """What the groups of one check found together."""

    visible: list[Case] = field(default_factory=list)
    drawn: list[Case] = field(default_factory=list)
    calls: int = 0
    elements: int = 0
    worst: float = 0.0

    def add(self, cases: CheckCases, calls: int, check: GroupCheck) -> None:
        """Adds a group's."""
        self.visible += cases.visible
        self.drawn += cases.drawn
        self.calls += calls
        self.elements += check.elements
        self.worst = max(self.worst, check.worst)

    @property
    def record(self) -> CheckRecord:
        """What the evaluation keeps."""
        return CheckRecord(
            visible=tuple(self.visible),
            hidden=tuple(self.drawn),
            calls=self.calls,
            how={"same_buffers": self.calls},
            elements=self.elements,
            guard_bytes=0,
            read_bytes=0,
            repeats=0,
        )

    @property
    def correct(self) -> Correct:
        """The outcome where nothing is wrong."""
        cases = len(self.visible) + len(self.drawn)
        return Correct(cases=cases, worst=self.worst, hidden=len(self.drawn))
