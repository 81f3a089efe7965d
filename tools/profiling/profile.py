"""Profiles a candidate: a GPU's hardware counters, or what the virtual GPU counts, with a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.preprocessed import SOURCE
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.hardware_counters import (
    HardwareCounters,
    Launch,
    NotPermitted,
    by_cupti,
)
from astra_chat.tools.profiling.nsight_compute import by_ncu
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import Recorded
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.cores import cores
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import case_limit_us
from astra_chat.tools.types import (
    NOT_PROFILED,
    AnyTime,
    Case,
    Metric,
    Profile,
    SourceLine,
    place_text,
)
from astra_chat.tools.virtual_gpu.adapter import INLINED, UNITS, WAITED, Estimate, reachable_us
from astra_vgpu.ground.errors import AstraError, MissingDependency
from astra_vgpu.ground.gpu_specs import spec

SHOWN_NAMES = 3
NO_COUNTERS = "no counters"
BESIDE_CUPTI_S = 2.0
"""Time for what the virtual GPU counts beside CUPTI: enough for all but the largest cases."""
Tool = Callable[[Runner, Build, Sequence[OracleCase]], HardwareCounters | Failure]
"""What counts one call of each case. Raises MissingDependency where it cannot be used."""


def profile_gpu(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times: Sequence[AnyTime],
    *,
    thorough: bool,
) -> tuple[list[Profile] | Failure, str]:
    """Profiles of these cases with what the virtual GPU counts of the same calls at the same time,
    and by what tool. `thorough`: all metrics, by Nsight Compute; else by CUPTI. Each stands in for
    the other where that cannot be used; where neither can, the profiles say so.

    `times`: what each case took when it was timed. Raises MissingDependency where there are
    neither counters nor times.
    """
    tools: tuple[Tool, Tool] = (by_ncu, by_cupti) if thorough else (by_cupti, by_ncu)
    limit_s, unwanted = COUNTING_S if thorough else BESIDE_CUPTI_S, Stop(beside=runner.stop)
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(counted_reports, runner, build, oracle_cases, limit_s, unwanted)
        try:
            found, words = _by_any(tools, runner, build, oracle_cases, times)
            if isinstance(found, list):
                found = with_counts(found, counting.result(), build.source)
        finally:
            unwanted.set()
    return found, words


def _by_any(
    tools: Sequence[Tool],
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times: Sequence[AnyTime],
) -> tuple[list[Profile] | Failure, str]:
    try:
        return profile_by(tools, runner, build, oracle_cases, [time.median_us for time in times])
    except MissingDependency as lack:
        words = f"{NO_COUNTERS}: {lack}"
        if not times:
            raise MissingDependency(f"{NOT_PROFILED}: {words}") from None
        return [unprofiled(time, words) for time in times], words


def profile_by(
    tools: Sequence[Tool],
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times_us: Sequence[float] = (),
) -> tuple[list[Profile] | Failure, str]:
    """Profiles of these cases by the first of these tools that can be used, and by which.
    `times_us`: what each took when it was timed, of which the profile shows the parts.

    Raises MissingDependency where none can be used.
    """
    lacks = list[str]()
    for tool in tools:
        try:
            counters = tool(runner, build, oracle_cases)
            if not isinstance(counters, HardwareCounters):
                return counters, ""
            profiles = _profiles(runner, oracle_cases, counters, times_us)
        except NotPermitted:
            raise
        except MissingDependency as lack:
            lacks.append(str(lack))
        else:
            return profiles, "; ".join([counters.words, *lacks])
    raise MissingDependency("; ".join(lacks))


def _profiles(
    runner: Runner,
    oracle_cases: Sequence[OracleCase],
    counters: HardwareCounters,
    times_us: Sequence[float],
) -> list[Profile]:
    known: list[float | None] = [*times_us] or [None] * len(oracle_cases)
    profiles = [
        _profile(runner, oracle_case, counters.units, launches, time_us)
        for oracle_case, launches, time_us in zip(oracle_cases, counters.cases, known, strict=True)
    ]
    for number, first in counters.same_as.items():
        same = f"; counted on {profiles[first].case.label}, which has the same launches"
        profiles[number] = profiles[number].model_copy(update={"why": profiles[number].why + same})
    return profiles


def together(units: Mapping[str, str], launches: Sequence[Launch]) -> dict[str, Metric]:
    """Metrics of the launches of one call, by name.

    Counts add up over kernels; shares, rates and limits are means weighted by the kernels' times.
    """
    metrics = {}
    for name in m.ASKED:
        pairs = [
            (launch.values[name], launch.values.get(m.TIME) or 1.0)
            for launch in launches
            if name in launch.values
        ]
        if pairs:
            whole = sum(value for value, _ in pairs)
            mean = sum(value * time for value, time in pairs) / sum(time for _, time in pairs)
            metrics[name] = Metric(
                name=name,
                value=whole if name.endswith(".sum") else mean,
                unit=units.get(name, ""),
                words=m.WORDS.get(name, ""),
            )
    return metrics


def _profile(
    runner: Runner,
    oracle_case: OracleCase,
    units: Mapping[str, str],
    launches: Sequence[Launch],
    time_us: float | None,
) -> Profile:
    """The profile of one case from its launches. Raises MissingDependency where what a bottleneck
    needs was not read."""
    metrics = together(units, launches)
    if missing := [name for name in m.NEEDED if name not in metrics]:
        raise MissingDependency(f"no counter was read for {', '.join(missing)}")
    gpu = spec(runner.device.spec)
    reading = m.read(metrics, gpu)
    floor, why = case_limit_us(runner, oracle_case), reading.why
    if len(launches) > 1:
        names = ", ".join(launch.kernel for launch in launches[:SHOWN_NAMES])
        why += f"; {len(launches)} launches together: {names}"
    microseconds = metrics[m.TIME].value / 1e3
    shown = tuple(metrics[name] for name in m.WORDS if name in metrics)
    split = m.split_metrics(m.attributed(metrics, gpu, time_us), _reachable_us(runner, oracle_case))
    return Profile(
        basis="measured",
        case=oracle_case.case,
        metrics=(*shown, *reading.derived, *split, *_over_least(runner, oracle_case, shown)),
        bottleneck=reading.bottleneck,
        why=why,
        limit_us=floor,
        percent_of_limit=100 * floor / microseconds,
    )


def _reachable_us(runner: Runner, oracle_case: OracleCase) -> float:
    task, case = runner.task, oracle_case.case
    return reachable_us(
        task.least_bytes(case),
        case_limit_us(runner, oracle_case),
        spec(runner.device.spec),
        rounds=_rounds(task, case),
    )


def _rounds(task: Task, case: Case) -> int:
    """Rounds of loads that no kernel can do without: a second where a loaded index says what to
    load."""
    read = {arg.name for arg in task.args if arg.read and arg.present(case)}
    follows = any(arg.index and arg.name in read and arg.index.table in read for arg in task.args)
    return 2 if follows else min(len(read), 1)


def _over_least(runner: Runner, oracle_case: OracleCase, metrics: Sequence[Metric]) -> list[Metric]:
    return m.over_least(metrics, runner.task.least_bytes(oracle_case.case))


def unprofiled(time: AnyTime, why: str) -> Profile:
    """What is said of a case where no tool gave counters: no estimate stands in for them."""
    return Profile(
        basis=time.basis,
        case=time.case,
        metrics=(),
        bottleneck=NOT_PROFILED,
        why=why,
        limit_us=time.limit_us,
        percent_of_limit=time.percent_of_limit,
    )


def profile_virtual(
    runner: Runner, candidate: Build, oracle_case: OracleCase, report: CaseReport
) -> Profile:
    """The profile of a case that the virtual GPU ran with counters."""
    estimate, counted_metrics = report.estimated, counter_metrics(report)
    floor = case_limit_us(runner, oracle_case)
    return Profile(
        basis="estimated",
        case=oracle_case.case,
        metrics=(
            *counted_metrics,
            *_over_least(runner, oracle_case, counted_metrics),
            *m.split_metrics(estimate.split, _reachable_us(runner, oracle_case)),
        ),
        bottleneck=estimate.limiter,
        why=estimate.why,
        limit_us=floor,
        percent_of_limit=100 * floor / estimate.us,
        lines=source_lines(estimate, candidate.source),
    )


# What the virtual GPU counts of a kernel: of one that it ran, and of one that a real GPU runs.
#
# No hardware counter has the chain of results of a warp, its rounds of loads, or what each line of
# the source costs: beside what a GPU measured, these say what its times are made of.

COUNTING_S = 20.0
"""Time for all cases of a profile; a case that is not done then has no counts."""
BESIDE_MEASURED = (
    m.LOAD_ROUNDS,
    m.MACHINE_PATH,
    m.CHAIN,
    m.CHAIN_BEFORE_LOAD,
    *m.CHAIN_BY_UNIT.values(),
    m.CONSTANT_WORDS,
)
"""Counts that stand beside what Nsight Compute measured: it has none of them."""
WORDS = "counted on the virtual GPU: "
_IN_SOURCE = f"{SOURCE}:"
NO_LINE = "code that nvcc adds, such as a 64-bit division"
"""Text of a line where the machine code names line 0."""
LONGEST_LINE = 120
"""Most characters of a line's text."""
_Row = tuple[str, float, str, str]
"""Name, value, unit and words of a metric."""


def counted_reports(
    runner: Runner,
    candidate: Build,
    oracle_cases: Sequence[OracleCase],
    limit_s: float = COUNTING_S,
    unwanted: Stop | None = None,
) -> list[CaseReport | None]:
    """What the virtual GPU counts of a candidate of `runner` on each case; None where it cannot, or
    not in time, or once that is `unwanted`. It runs the launches that are recorded already: no code
    of the launcher runs. Raises Cancelled."""
    late = unwanted or Stop(beside=runner.stop)
    timer = threading.Timer(limit_s, late.set)
    plans = runner.record(candidate, [one.case for one in oracle_cases])
    device = virtual_device(runner.device.spec)
    other = Runner(runner.task, device, late, runner.engine, seed=runner.seed)
    other.keep_plans(candidate, [plan for plan in plans if isinstance(plan, LaunchPlan)])

    def counted(oracle_case: OracleCase, plan: Recorded) -> CaseReport | None:
        if not isinstance(plan, LaunchPlan):
            return None
        try:
            run = next(other.run(candidate, [oracle_case], "time"), None)
        except (AstraError, Cancelled):
            runner.stop.check()
            return None
        return run.report if isinstance(run, CaseRun) else None

    timer.start()
    try:
        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(counted, oracle_cases, plans))
    finally:
        timer.cancel()


def with_counts(
    profiles: Sequence[Profile], reports: Sequence[CaseReport | None], source: str
) -> list[Profile]:
    """Measured profiles with the counts of the same cases, which say whose they are."""
    return [
        profile.model_copy(
            update={
                "metrics": (
                    *profile.metrics,
                    *_marked(one for one in counter_metrics(report) if one.name in BESIDE_MEASURED),
                ),
                "lines": source_lines(report.estimated, source),
            }
        )
        if report
        else profile
        for profile, report in zip(profiles, reports, strict=True)
    ]


def _marked(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    return tuple(one.model_copy(update={"words": WORDS + one.words}) for one in metrics)


def source_lines(estimate: Estimate, source: str) -> tuple[SourceLine, ...]:
    """What each line of `source` costs the longest warp, in the order of what calls them; nothing
    where the machine code is unknown."""
    texts, waits = source.split("\n"), _waits(estimate)
    found = {
        place: calls
        for place in (*estimate.chain_lines, *waits)
        if (calls := _calls(place, len(texts)))
    }
    return tuple(
        SourceLine(
            line=calls[0],
            calls=tuple(calls[1:]),
            text=texts[calls[0] - 1].strip()[:LONGEST_LINE] if calls[0] else NO_LINE,
            chain_cycles=estimate.chain_lines.get(place, 0.0),
            load_rounds=sum(waits.get(place, {}).values()),
            waited_at=_waited_at(waits.get(place, {}), len(texts)),
        )
        for place, calls in sorted(found.items(), key=lambda item: item[1][::-1])
    )


def _waits(estimate: Estimate) -> dict[str, dict[str, float]]:
    """Rounds by the place of the load, then by that of what waits for it."""
    waits: dict[str, dict[str, float]] = {}
    for places, rounds in estimate.load_lines.items():
        load, _, waiting = places.partition(WAITED)
        waits.setdefault(load, {})[waiting] = rounds
    return waits


def _calls(place: str, lines: int) -> list[int]:
    """The line of a place, and those that it is inlined at; none outside of the source."""
    parts = [at for at in place.split(INLINED) if at.startswith(_IN_SOURCE)]
    calls = [int(at.removeprefix(_IN_SOURCE)) for at in parts]
    return calls if calls and max(calls) <= lines else []


def _waited_at(rounds: Mapping[str, float], lines: int) -> str:
    """The place in the source with most of these rounds; "" where it is not known."""
    known = [(often, calls) for at, often in rounds.items() if (calls := _calls(at, lines))]
    _, calls = max(known, default=(0.0, [0]))
    return place_text(*calls) if calls[0] else ""


def _chain_parts(estimate: Estimate) -> list[_Row]:
    """What the longest chain of results is made of; nothing where the machine code is unknown."""
    if not estimate.chain_units:
        return []
    parts = sorted(estimate.chain_units.items(), key=lambda item: -item[1])
    before = "part of the chain before the warp first waits for global memory"
    return [
        (m.CHAIN_BEFORE_LOAD, estimate.chain_before_load, "cycle", before),
        *(
            (m.CHAIN_BY_UNIT[unit], cycles, "cycle", f"part of the chain: {UNITS[unit]}")
            for unit, cycles in parts
            if unit in UNITS
        ),
    ]


def _constant_words(counts: Mapping[str, float]) -> list[_Row]:
    """Metric of the words that each load of constants takes; nothing where its lanes want one
    word."""
    loads, words = (counts.get(f"constant_load_{what}", 0.0) for what in ("requests", "words"))
    if words <= loads:
        return []
    each = "different words per load of constants or parameters, served one after the other"
    return [(m.CONSTANT_WORDS, words / loads, "", each)]


def counter_metrics(report: CaseReport) -> list[Metric]:
    """Counters of all launches of the call, scaled to whole grids where a sample ran.

    Nsight Compute's names where the same thing is counted, else our own.
    """
    totals = _totals(report)
    rows = [
        *_time_rows(report.estimated),
        *_longest_warp_rows(report.estimated),
        *_instruction_rows(totals),
        *_global_memory_rows(totals.counts),
        *_on_chip_rows(totals.counts),
    ]
    return [Metric(name=n, value=float(v), unit=u, words=w) for n, v, u, w in rows]


@dataclass(frozen=True, kw_only=True)
class _Totals:
    """Counts of all launches of a call, as if all blocks had run."""

    counts: Mapping[str, float]
    """Events by the name of their field in Counters."""
    instructions: float
    """PTX instructions."""
    machine: float
    """Machine instructions; PTX instructions where the machine code is not known."""
    units: Mapping[str, float]
    """Machine instructions by unit, where the machine code is known."""


def _totals(report: CaseReport) -> _Totals:
    counts: dict[str, float] = {}
    units: dict[str, float] = {}
    instructions = machine = 0.0
    for launch in report.launches:
        scale, counters = launch.scale, vars(launch.counters)
        instructions += scale * sum(counters["warp_instructions"].values())
        known = counters.get("machine_instructions") or {}
        machine += scale * sum((known or counters["warp_instructions"]).values())
        for unit, count in known.items():
            units[unit] = units.get(unit, 0.0) + scale * count
        for name, value in counters.items():
            if isinstance(value, int):
                counts[name] = counts.get(name, 0.0) + scale * value
    return _Totals(counts=counts, instructions=instructions, machine=machine, units=units)


def _time_rows(estimate: Estimate) -> list[_Row]:
    """The estimated time, and how much of the GPU is in use."""
    return [
        (m.TIME, 1e3 * estimate.us, "ns", "estimated device time of the call"),
        (m.OCCUPANCY_LIMIT, 100 * estimate.occupancy, "%", m.WORDS[m.OCCUPANCY_LIMIT]),
        (m.WAVES, estimate.waves, "", "waves of blocks"),
    ]


def _longest_warp_rows(estimate: Estimate) -> list[_Row]:
    """What the longest warp does, and how many warps an SM has."""
    machine = round(estimate.machine_instructions)
    chain = "longest dependency chain of that warp"
    return [
        (m.LOAD_ROUNDS, estimate.load_rounds, "", "rounds of loads that a warp waits for"),
        (m.MACHINE_PATH, machine, "inst", "machine instructions of the longest warp"),
        (m.PTX_PATH, estimate.warp_instructions, "inst", "PTX instructions of the longest warp"),
        (m.CHAIN, estimate.chain_cycles, "cycle", chain),
        *_chain_parts(estimate),
        (m.WARPS_HELD, estimate.warps_held, "warp", "warps that the busiest SM runs at once"),
        (
            m.TURNS,
            estimate.turns,
            "",
            "blocks that one slot of the busiest SM runs one after the other",
        ),
    ]


def _instruction_rows(totals: _Totals) -> list[_Row]:
    """Instructions of the machine by unit, and how many lanes take part."""
    lanes = 100 * totals.counts["lane_instructions"] / max(1.0, 32 * totals.instructions)
    by_unit = sorted(totals.units.items(), key=lambda item: -item[1])
    return [
        (m.INSTRUCTIONS, totals.machine, "inst", m.WORDS[m.INSTRUCTIONS]),
        *((m.BY_UNIT[unit], n, "inst", f"of these: {UNITS[unit]}") for unit, n in by_unit),
        (m.LANES, lanes, "%", m.WORDS[m.LANES]),
    ]


def _global_memory_rows(counts: Mapping[str, float]) -> list[_Row]:
    """Requests, their sectors, and what DRAM has to move."""
    loads = max(1.0, counts["global_load_requests"])
    stores = max(1.0, counts["global_store_requests"])
    load_bytes = counts["global_load_bytes"] / loads
    load_sectors = counts["global_load_sectors"] / loads
    store_sectors = counts["global_store_sectors"] / stores
    read, written = (32 * counts[f"unique_{way}_sectors"] for way in ("load", "store"))
    fetched = "different sectors read, each of which a cold L2 has to fetch"
    return [
        (m.LOADS, counts["global_load_requests"], "", m.WORDS[m.LOADS]),
        (m.LOAD_BYTES, load_bytes, "byte", "bytes per request of a warp"),
        (m.LOAD_SECTORS, load_sectors, "sector", m.WORDS[m.LOAD_SECTORS]),
        (m.STORE_SECTORS, store_sectors, "sector", m.WORDS[m.STORE_SECTORS]),
        (m.DRAM_READ, read, "byte", fetched),
        (m.DRAM_WRITE, written, "byte", "different sectors written"),
    ]


def _on_chip_rows(counts: Mapping[str, float]) -> list[_Row]:
    """Shared memory, constants, barriers, and local memory where there is any."""
    wavefronts = counts["shared_wavefronts"]
    each = wavefronts / max(1.0, counts["shared_requests"])
    local = ((m.LOCAL_LOADS, "local_load_sectors"), (m.LOCAL_STORES, "local_store_sectors"))
    return [
        (m.SHARED_WAVEFRONTS, wavefronts, "", m.WORDS[m.SHARED_WAVEFRONTS]),
        (m.SHARED_WAVEFRONTS_EACH, each, "", "1 means no bank conflicts"),
        *_constant_words(counts),
        ("barriers", counts["barriers"], "", "block barriers, counted once per warp"),
        *(
            (name, counts[counter], "sector", m.WORDS[name])
            for name, counter in local
            if counts.get(counter)
        ),
    ]
