"""Small cases that reach every kernel which timed plans launch: what a sanitizer has to see.

A sanitizer slows a kernel by a factor of ten to a thousand, so it is given small cases. A launcher
chooses kernels by size: what it launches on the smallest case may be nothing of what is timed, and
a race between blocks or warps needs several of them. So the timed cases are shrunk, dim by dim and
together, the launcher is recorded on all of them, and for each kernel the smallest case is taken
that launches it as the timed plans do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.hidden_cases import unique
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case

WARP_THREADS = 32
MAX_DIMS = 4
"""Dims of a task that are shrunk in all combinations; of more, each by itself and all together."""


Way = tuple[str, bool, bool, bool]
"""A kernel, and whether it is launched in clusters, programmatically and cooperatively."""


@dataclass(frozen=True)
class Need:
    """A way in which timed plans launch a kernel."""

    way: Way
    several_blocks: bool
    several_warps: bool


def covering(runner: Runner, build: Build, timed: Sequence[Case]) -> list[Case]:
    """For each kernel of the timed cases' plans the smallest case that launches it with several
    blocks and several warps where the timed plans do, smallest first; of the check cases, shrunk
    timed cases and the timed cases themselves.

    Cases on which the launcher fails are left out: the check judges those that it draws. Raises
    what recording raises.
    """
    task = runner.task
    cases = [*task.check, *chain.from_iterable(_shrunk(task, case) for case in timed), *timed]
    small_first = sorted(unique(cases), key=task.least_bytes)
    wanted = _needs(_plans(runner, build, timed))
    chosen: list[Case] = []
    for plan in _plans(runner, build, small_first):
        met = {need for need in wanted if any(_meets(need, node) for node in plan.kernels)}
        if met:
            chosen.append(plan.case)
            wanted -= met
    return chosen


def _plans(runner: Runner, build: Build, cases: Sequence[Case]) -> list[LaunchPlan]:
    return [plan for plan in runner.record(build, cases) if isinstance(plan, LaunchPlan)]


def _needs(plans: Sequence[LaunchPlan]) -> set[Need]:
    """One for each kernel and way to launch it."""
    nodes = [node for plan in plans for node in plan.kernels]
    several_blocks = {_way(node) for node in nodes if _blocks(node) > 1}
    several_warps = {_way(node) for node in nodes if prod(node.block) > WARP_THREADS}
    ways = set(map(_way, nodes))
    return {Need(way, way in several_blocks, way in several_warps) for way in ways}


def _way(node: KernelNode) -> Way:
    return node.kernel, node.cluster is not None, node.programmatic, node.cooperative


def _meets(need: Need, node: KernelNode) -> bool:
    blocks, warps = _blocks(node) > 1, prod(node.block) > WARP_THREADS
    return (
        _way(node) == need.way
        and (blocks or not need.several_blocks)
        and (warps or not need.several_warps)
    )


def _blocks(node: KernelNode) -> int:
    """Returns the number of blocks of a launch, or of its clusters where it has them."""
    return prod(node.grid) // prod(node.cluster or (1,))


def _shrunk(task: Task, case: Case) -> Iterator[Case]:
    """The case with some dims at a half, a quarter, ... of their extents, as far as is legal."""
    names = list(case.dims)
    few = len(names) <= MAX_DIMS
    sizes = range(1, len(names) + 1) if few else (1, len(names))
    for some in chain.from_iterable(combinations(names, size) for size in sizes):
        last, smaller = case, _halved(task, case, some)
        while smaller != last:
            if task.allows(smaller):
                yield smaller
            last, smaller = smaller, _halved(task, smaller, some)


def _halved(task: Task, case: Case, names: Sequence[str]) -> Case:
    """Extents rounded up to legal steps, none below its least."""
    dims = dict(case.dims)
    for name in names:
        dims[name] = task.dims[name].above(dims[name] // 2, case.dtype)
    return case.model_copy(update={"dims": dims})
