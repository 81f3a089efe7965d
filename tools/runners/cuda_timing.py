"""Device time on a real GPU: CUDA-graph replay over rotated buffers, and event pairs.

Baseline and candidate are replayed in blocks of ABBA or BAAB, drawn at random, in one process, so
that clocks and temperature hit both alike. Each block replays a second recording of the baseline
too: what it seems to gain over itself is the noise of this machine and case (A/A). Blocks continue
until the interval of the log-ratio is narrow or the time is up.

What is verified is what a timed replay wrote, in all sets: one of the candidate's, each as likely
as any other, so there is no other recording and no later call for which it could keep its correct
results. That goes for cold replays, for warm ones and for launches with an event pair around each.
Nothing reaches a replay from those before it: buffers are filled again, module variables restored,
shared memory and stacks overwritten. What is expected is computed after the candidate's last
launch.

Once several streams of a process have run kernels, each kernel of its CUDA graphs begins 0.18 us
later than before, 0.35 us where the L2 was evicted, whatever the kernel
(docs/research/measurements.md). A server with several streams is in that state, and in between one
graph may be in it and another not: so the process is brought there before anything is timed, and
all graphs pay the same.

A kernel that is launched with attributes (programmatic dependent launch) may begin while the launch
before it still runs. Replayed back to back it would overlap with itself, which no serving engine
does, and look up to 1.9 times faster than it is after the GEMM that makes its input. Where baseline
or candidate can do that, a small kernel stands between all launches and its own time is taken off.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pynvml
import torch

from astra_chat.tools.run.protocol import (
    Block,
    CallRequest,
    CaseReport,
    ClockReading,
    CudaRequest,
    FetchedSet,
    PairUs,
    RawTimes,
    WarmReplay,
)
from astra_chat.tools.runners.cuda_buffers import BufferSets, Kept
from astra_chat.tools.runners.cuda_compare import elements, shares_of
from astra_chat.tools.runners.cuda_plans import Enqueue, Kernels
from astra_chat.tools.runners.cuda_poison import Poison
from astra_chat.tools.runners.cuda_state import ModuleVariables
from astra_chat.tools.system.devices import gpu_handles
from astra_chat.tools.task.buffer_layout import gathered
from astra_chat.tools.task.folder import Task

MIN_BLOCKS, MAX_BLOCKS, MAX_SECONDS = 10, 40, 3.0
MORE = 4
"""Up to so many blocks, rounds and replays that warm up are added, a number drawn at random."""
HALF_WIDTH = 0.005
"""Stop when the log-ratio is known this well, or as well as the A/A noise allows."""
WARM_BLOCKS, WARM_LAUNCHES = 5, 20
EVENT_LAUNCHES, EVENT_ROUNDS = 120, 6
"""Launches with an event pair around each, and rounds of them, at most. A sixth warms up."""
WORKSPACE_LAUNCHES = 2
"""One could end with bytes that its workspace held before."""
SETTLING_ELEMENTS, SETTLING_KERNELS, SETTLING_TURNS = 2**17, 100, 3
"""Ten kernels of 64 blocks on a second stream were enough."""
THROTTLING = (
    pynvml.nvmlClocksThrottleReasonHwSlowdown
    | pynvml.nvmlClocksThrottleReasonSwThermalSlowdown
    | pynvml.nvmlClocksThrottleReasonSwPowerCap
)


@dataclass(frozen=True)
class Side:
    """Baseline or candidate."""

    kernels: Kernels
    state: ModuleVariables


Pair = tuple[torch.cuda.Event, torch.cuda.Event]
Replay = Callable[[], float]
"""Replays a graph; microseconds of one launch."""


class TimedCall:
    """Baseline and candidate on one case."""

    def __init__(
        self,
        task: Task,
        call: CallRequest,
        sides: tuple[Side, Side],
        request: CudaRequest,
        dirt: Poison,
    ) -> None:
        """`sides`: baseline and candidate."""
        _settle()
        self._task, self._call, self._sides, self._dirt = task, call, sides, dirt
        self._plans = call.baseline_launches, call.launches
        self._bound: dict[tuple[int, int], Enqueue] = {}
        self._random = call.seed.of("timing").random()
        self._sets = BufferSets(task, call, call.pattern, self._random)
        self._least_blocks = request.least_blocks or MIN_BLOCKS + self._random.randrange(MORE)
        self._clock = Clock(request.index)
        self._timed = 0
        self._spaced = any(node.programmatic for plan in self._plans for node in plan.kernels)
        self._spacer = torch.zeros(1, device="cuda").add_(1)
        self._least_late: dict[tuple[int | None, bool], tuple[float, float]] = {}
        """Times in us, by events and by the host, of the replay whose end the host saw soonest, for
        each side, cold or warm. A busy host is late now and then; hidden work would always be."""

    def run(self) -> CaseReport:
        """Raw times, and what was verified of the timed launches' results.

        Never on stream 0, which would tell a candidate which tool calls it.
        """
        with torch.cuda.stream(torch.cuda.Stream()):
            return self._run()

    def _run(self) -> CaseReport:
        torch.cuda.synchronize()  # the sets were filled on another stream
        for side in (1, 0):
            self._enqueue(side, self._sets.order[0])
        torch.cuda.synchronize()
        baseline = self._cold(0)
        blocks, warm, events = self._blocks(baseline), self._warm(), self._events()
        times = RawTimes(
            blocks=tuple(blocks),
            warm=tuple(warm),
            baseline_event_us=events[0],
            candidate_event_us=events[1],
            spaced=self._spaced,
            event_us=sum(event for event, _ in self._least_late.values()),
            host_us=sum(host for _, host in self._least_late.values()),
            other_processes=self._clock.others,
        )
        used = [self._workspace_bytes(side) for side in (0, 1)]
        if changed := self._sides[1].state.changed():
            return CaseReport(changed=changed[0])
        began = time.perf_counter()
        self._sets.look_at_sources()
        self._expect(baseline)
        report = verified(self._task, self._call, self._sets, self._random)
        self._sets.wipe()
        spent_s = time.perf_counter() - began
        more = {"baseline_workspace_bytes": used[0], "workspace_bytes": used[1]}
        return report.model_copy(update={"times": times, "compared_s": spent_s, **more})

    def _workspace_bytes(self, side: int) -> int | None:
        """Returns what launches on a few sets use of the workspaces, outside the timed replays;
        None where memory does not count."""
        if self._task.memory is None:
            return None
        launched = self._sets.order[:WORKSPACE_LAUNCHES]
        self._forget(side)
        self._sets.refill()
        for which in launched:
            self._enqueue(side, which)
        torch.cuda.synchronize()
        return self._sets.workspace_bytes(launched)

    def _expect(self, baseline: Replay) -> None:
        """Put into every set what its results are compared with."""
        baseline()

    def _blocks(self, baseline: Replay) -> list[Block]:
        """Cold replays in random ABBA order until the ratio is known well enough."""
        candidate, control = self._cold(1), self._cold(0)
        deadline = time.monotonic() + MAX_SECONDS
        blocks: list[Block] = []
        for replay in (baseline, candidate, control) * self._random.randint(1, MORE):
            replay()
        began = time.monotonic()
        while len(blocks) < max(MAX_BLOCKS, self._least_blocks):
            first, second = self._random.choice([(0, 1), (1, 0)])
            spent: tuple[list[float], list[float]] = ([], [])
            replays = (baseline, candidate)
            for which in (first, second, second, first):
                spent[which].append(replays[which]())
                self._perhaps_keep(which)
            blocks.append(
                Block(
                    candidate_first=bool(first),
                    baseline=_pair(spent[0]),
                    candidate=_pair(spent[1]),
                    control=(control(), control()),
                    spent_s=time.monotonic() - began,
                    clock=self._clock.read(),
                )
            )
            if len(blocks) >= self._least_blocks and (
                _known(blocks) or time.monotonic() > deadline
            ):
                break
        return blocks

    def _perhaps_keep(self, which: int) -> None:
        """Keep one of the candidate's replays: the n-th takes the place of the kept one with a
        chance of 1/n.

        Source: reservoir sampling, J. S. Vitter 1985, algorithm R.
        """
        if which == 1:
            self._timed += 1
            if self._random.random() < 1 / self._timed:
                self._sets.keep("cold", self._sets.order)

    def _warm(self) -> list[WarmReplay]:
        """Replays in which each launch follows kernels that restore its set: the data lie in the L2
        where they fit, as after the kernel that made them. The sets are neighbours, so that few
        pages are touched, as in a server."""
        most = min(WARM_LAUNCHES, self._sets.count)
        first = self._random.randrange(self._sets.count - most + 1)
        sets = self._random.sample(range(first, first + most), most)
        replays = [self._recorded(side, sets, warm=True) for side in range(2)]
        rounds = WARM_BLOCKS + self._random.randrange(MORE)
        kept = self._random.randrange(1, rounds + 1)
        blocks = []
        for number in range(rounds + 1):
            spent = []
            for side, replay in enumerate(replays):
                self._forget(side)
                spent.append(replay())
            blocks.append(WarmReplay(baseline_us=spent[0], candidate_us=spent[1]))
            if number == kept:
                self._sets.keep("warm", sets)
        return blocks[1:]

    def _cold(self, side: int) -> Replay:
        recorded = self._recorded(side, self._sets.order)

        def replay() -> float:
            self._forget(side)
            self._sets.refill()
            self._sets.cool()
            return recorded()

        return replay

    def _recorded(self, side: int, sets: Sequence[int], *, warm: bool = False) -> Replay:
        """A graph of one launch for each of these sets, restored before it or spaced after it if
        need be, that is timed by each call of the result; what is no launch is taken off."""
        graph = self._graph(side, sets, warm=warm)
        if not (warm or self._spaced):
            return lambda: self._replay_us(graph, (side, warm)) / len(sets)
        rest = self._graph(None, sets, warm=warm)
        off = statistics.median(self._replay_us(rest, (None, warm)) for _ in range(MIN_BLOCKS))

        def replay() -> float:
            if warm:
                rest.replay()  # sets are restored from the L2, as when `rest` was timed
            return (self._replay_us(graph, (side, warm)) - off) / len(sets)

        return replay

    def _graph(self, side: int | None, sets: Sequence[int], *, warm: bool) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for which in sets:
                if warm:
                    self._sets.restore(which)
                if side is not None:
                    self._enqueue(side, which)
                if self._spaced:
                    self._spacer.add_(1)
        return graph

    def _forget(self, side: int) -> None:
        """Leave nothing of earlier launches to those that come: in module variables, whose changes
        are noted first, and for a candidate in shared memory and on stacks."""
        self._sides[side].state.restore()
        if side == 1:
            self._dirt.spread(self._call.pattern, _stream())

    def _enqueue(self, side: int, which: int) -> None:
        """Put a launch of baseline (0) or candidate (1) on a set of buffers on the stream."""
        self._launch(side, which)(_stream())

    def _launch(self, side: int, which: int) -> Enqueue:
        if (side, which) not in self._bound:
            addresses = self._sets.addresses(which)
            self._bound[side, which] = self._sides[side].kernels.bind(
                self._task, self._call, self._plans[side], addresses
            )
        return self._bound[side, which]

    def _replay_us(self, graph: torch.cuda.CUDAGraph, kind: tuple[int | None, bool]) -> float:
        """Returns the time of a replay of the graph by events, in us; the host's clock is kept
        beside it, for the judge to compare. `kind`: its side, if any, and whether it is warm."""
        start, end = _event(), _event()
        torch.cuda.synchronize()
        began = time.perf_counter()
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        host_us = (time.perf_counter() - began) * 1e6
        event_us = float(start.elapsed_time(end)) * 1e3
        least = self._least_late.get(kind, (0.0, math.inf))
        self._least_late[kind] = min(least, (event_us, host_us), key=lambda t: t[1] - t[0])
        return event_us

    def _events(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Returns the times of launches of baseline and candidate, in us, by one event pair around
        each, launch overhead included, as in the paper; but no set of buffers serves twice before
        it is filled again, and they take turns, in an order drawn at random, so that what else the
        processors do hits both alike."""
        launched = self._sets.order[:EVENT_LAUNCHES]
        stream = _stream()
        calls = [
            [partial(self._launch(side, which), stream) for which in launched] for side in range(2)
        ]
        rounds = min(EVENT_ROUNDS, -(-EVENT_LAUNCHES // len(launched)))
        rounds += self._random.randrange(MORE)
        kept = self._random.randrange(rounds)
        pairs: tuple[list[Pair], list[Pair]] = ([], [])
        for number in range(rounds):
            for side in self._random.sample(range(2), 2):
                self._forget(side)
                self._sets.refill()
                pairs[side].extend(_between_events(calls[side]))
                if side == 1 and number == kept:
                    self._sets.keep("events", launched)
        torch.cuda.synchronize()
        return _after_warming_up(pairs[0]), _after_warming_up(pairs[1])


def _between_events(calls: Sequence[Callable[[], Any]]) -> Iterator[Pair]:
    for call in calls:
        start, end = _event(), _event()
        start.record()
        call()
        end.record()
        yield start, end


def _pair(spent: Sequence[float]) -> PairUs:
    first, second = spent
    return first, second


def _after_warming_up(pairs: Sequence[Pair]) -> tuple[float, ...]:
    us = tuple(float(start.elapsed_time(end)) * 1e3 for start, end in pairs)
    return us[len(us) // EVENT_ROUNDS :]


def _known(blocks: Sequence[Block]) -> bool:
    """Whether the log-ratio's interval is as narrow as HALF_WIDTH or the A/A noise."""
    logs = [math.log(b.baseline_us / b.candidate_us) for b in blocks]
    control = [math.log(b.baseline_us / b.control_us) for b in blocks]
    half = 2 * statistics.stdev(logs) / math.sqrt(len(logs))
    return half <= max(HALF_WIDTH, abs(statistics.median(control)))


@cache
def _settle() -> None:
    """Let three streams of the process run kernels by turns, once and for all."""
    streams = (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream())
    values = torch.zeros(SETTLING_ELEMENTS, device="cuda")
    torch.cuda.synchronize()
    for stream in streams * SETTLING_TURNS:
        with torch.cuda.stream(stream):
            for _ in range(SETTLING_KERNELS):
                values.add_(1)
        torch.cuda.synchronize()


def _stream() -> int:
    """Address of the current stream."""
    return int(torch.cuda.current_stream().cuda_stream)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


class Clock:
    """Reads NVML; a block that ran throttled is left out by the judge."""

    def __init__(self, index: int) -> None:
        """`index` as CUDA counts."""
        self._handle = gpu_handles()[index]
        self.others = self._others()
        """Processes beside this one that had work on the GPU: they know nothing of our lease."""

    def read(self) -> ClockReading:
        handle = self._handle
        reasons = int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        hot = int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
        return ClockReading(
            sm_clock_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            memory_clock_mhz=int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            temperature_c=hot,
            power_w=int(pynvml.nvmlDeviceGetPowerUsage(handle)) // 1000,
            throttle_reasons=reasons,
            throttled=bool(reasons & THROTTLING),
        )

    def _others(self) -> int:
        """Seen from a container's or bubblewrap's own numbers of processes ours has another one: so
        they are counted, not named."""
        try:
            return max(0, len(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) - 1)
        except pynvml.NVMLError:  # not every driver says
            return 0


# The results of all timed sets, compared on the device with what the baseline makes of the same
# inputs, after the candidate's last launch.
#
# What differs by more than twice the tolerance, or at all where there is none, is handed to the
# judge with its inputs, and the oracle decides. The oracle also sees a drawn part of the sets with
# the baseline's results on them: the baseline is what all others were compared with.

DRAWN_SHARE = 0.05
"""Share of the sets that the oracle sees in any case, the one with the case's own inputs among
them."""
MAX_DOUBTFUL, DOUBTFUL_BYTES = 64, 512 * 2**20
"""Most sets, and most bytes of their arguments, that are handed over because they differ, the worst
first; at least one set."""


def verified(task: Task, call: CallRequest, sets: BufferSets, draws: random.Random) -> CaseReport:
    """What was compared; results for the judge are in files. Call it when `sets` hold what the
    baseline made of their inputs."""
    shares = {
        (kept.mode, which): share
        for kept in sets.kept
        for which, share in zip(kept.sets, _worst(task, call, sets, kept), strict=True)
    }
    doubtful = [key for key, share in shares.items() if share > 1]
    draws.shuffle(doubtful)
    doubtful.sort(key=lambda key: -shares[key])
    others = [which for which in range(sets.count) if which != sets.own]
    drawn = {sets.own, *draws.sample(others, math.ceil(DRAWN_SHARE * sets.count) - 1)}
    chosen = [
        FetchedSet(mode="cold", number=which, own=which == sets.own, baseline=True)
        for which in sorted(drawn, key=lambda which: which != sets.own)
    ]
    chosen += [
        FetchedSet(mode=mode, number=which, own=which == sets.own)
        for mode, which in doubtful[: _most_doubtful(sets)]
        if mode != "cold" or which not in drawn
    ]
    for fetched in chosen:
        _hand_back(task, call, sets, fetched)
    return CaseReport(
        sets=tuple(chosen),
        compared=len(shares),
        doubtful=len(doubtful),
        touched=tuple(sorted(sets.touched)),
    )


def _worst(task: Task, call: CallRequest, sets: BufferSets, kept: Kept) -> list[float]:
    """Returns how far the results of each kept set are apart at most, over all written
    arguments."""
    worst = torch.zeros(len(kept.sets), device="cuda")
    for arg in task.args:
        if arg.written and arg.bytes_of(call.case):
            got, beside = (
                elements(arg, call.case, buffers)
                for buffers in (kept.results[arg.name], sets.results[arg.name])
            )
            shares = shares_of(task, arg, call.case, got, beside, kept.sets)
            torch.maximum(worst, shares, out=worst)
    return [float(share) for share in worst.tolist()]


def _most_doubtful(sets: BufferSets) -> int:
    return max(1, min(MAX_DOUBTFUL, DOUBTFUL_BYTES // sets.bytes_each))


def _hand_back(task: Task, call: CallRequest, sets: BufferSets, fetched: FetchedSet) -> None:
    """Write the results of one set and, unless they are the case's own, its inputs."""
    folder = call.after / fetched.folder
    (folder / "baseline").mkdir(parents=True)
    kept = next(kept for kept in sets.kept if kept.mode == fetched.mode)
    place = kept.sets.index(fetched.number)
    for index, arg in enumerate(task.args):
        if arg.written:
            size = sets.sizes[index]
            results = kept.results[arg.name][place, :size]
            _write(sets, index, results, folder / f"{arg.name}.after")
            if fetched.baseline:
                beside = sets.results[arg.name][fetched.number, :size]
                _write(sets, index, beside, folder / "baseline" / f"{arg.name}.after")
        if arg.read and not fetched.own:
            buffer = sets.inputs(fetched.number)[arg.name].cpu().numpy()
            gathered(arg, call.case, buffer)[0].tofile(folder / f"{arg.name}.in")


def _write(sets: BufferSets, index: int, values: torch.Tensor, path: Path) -> None:
    sets.alone(index, values.cpu().numpy()).tofile(path)
